"""Which processes use this worker's chips, and releasing the chips from them. Blocks: call it in a thread."""
