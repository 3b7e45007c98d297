"""Commands about nodes: list, create, stop, start, delete, search, queue, recover, ssh, kernels, doctor.

Start with `fleet_run`, used by all commands that change nodes.
"""
