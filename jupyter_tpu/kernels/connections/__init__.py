"""Links to workers: one per worker and process, shared by its kernels.

Start with `pool`. `worker` goes from a node's name to an SSH connection.
"""
