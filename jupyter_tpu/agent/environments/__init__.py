"""Python environments on this worker: the agent's own, and one per framework for kernels.

Start with `methods` (what clients call) and `build` (what happens). Runs uv; knows nothing of kernels.
"""
