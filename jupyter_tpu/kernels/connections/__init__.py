"""Links to workers: one per worker and process, shared by the worker's kernels.

Start reading at `pool`; `worker` opens an SSH connection from a node's name. This package must not depend on kernel
messages.
"""
