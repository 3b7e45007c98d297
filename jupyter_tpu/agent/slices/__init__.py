"""The agent's processes for a kernel on all workers of a slice: its controller, and the other workers' engines.

Start with `methods`. The kernel itself is an ordinary kernel on worker 0 (`jupyter_tpu.agent.kernels`).
"""
