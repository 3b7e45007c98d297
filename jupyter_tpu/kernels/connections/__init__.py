"""Links to workers: one per worker and process, shared by its kernels.

Start reading at `pool`; `worker` goes from a node's name to an SSH connection. It must not know kernels' messages.
"""
