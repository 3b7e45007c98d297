"""Python environments of kernels, as seen from this computer: a folder's requirements, builds, and what to restore.

Start reading at `environment`. The work on the worker is in `jupyter_tpu.agent.environments`.
"""
