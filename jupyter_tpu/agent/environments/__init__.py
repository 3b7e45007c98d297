"""Python environments on this worker: the agent's own, and one per framework for kernels.

Start with `methods` (the RPC methods) and `build` (which builds an environment); `venv` is for the agent's own
environment. This package runs uv, and must not depend on kernels or clients.
"""
