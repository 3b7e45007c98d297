"""Python environments of kernels, from this computer: what a folder requires, builds on the worker, what to restore.

Start with `environment`. The work on the worker is in `jupyter_tpu.agent.environments`.
"""
