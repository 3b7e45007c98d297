"""The metadata server of each worker, and what it tells."""
