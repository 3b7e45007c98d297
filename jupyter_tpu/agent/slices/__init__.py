"""The agent's part of a kernel that runs on all workers of a slice: its controller, and the engines of other workers.

Start with `methods`. The kernel itself is an ordinary one on worker 0 (`jupyter_tpu.agent.kernels`).
"""
