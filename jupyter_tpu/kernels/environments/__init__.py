"""The local part of kernels' Python environments: a folder's requirements, builds, and packages to restore.

Start reading at `environment`. The worker's part is in `jupyter_tpu.agent.environments`.
"""
