"""Python environments on this worker: the agent's own, and one per framework for kernels.

Start with `methods` (what clients call) and `build` (how an environment is built); `venv` has the agent's own. It runs
uv, and must know nothing of kernels or clients.
"""
