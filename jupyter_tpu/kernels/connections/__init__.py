"""Links to workers. Each process has one link per worker, which all kernels on that worker share.

Start reading at `pool`; `worker` opens an SSH connection from a node's name. This package must not depend on kernel
messages.
"""
