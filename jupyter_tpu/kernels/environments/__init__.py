"""Manage kernels' Python environments from this machine: folder requirements, builds, and packages to restore.

Start reading at `environment`. The worker's part is in `jupyter_tpu.agent.environments`.
"""
