"""Manage kernels' Python environments on workers: read a folder's requirements, create and restore environments.

Start reading at `environment`. The code that runs on the worker is in `jupyter_tpu.agent.environments`.
"""
