"""Kernels on workers, as Jupyter sees them: kernelspecs, a provisioner, and a launcher for front ends without one.

    kernelspecs    one per READY node, and one per environment on it
    provisioner    the kernel provisioner of jupyter_client: start reading here
    launcher       the same as a program, from a kernelspec's argv
    kernel_host    one kernel with all that this process holds for it
    remote_kernel  one kernel on a worker: starts, ends, reports its death
    connections    from a node's name to an SSH connection; one background thread, one shared link per worker
    messages       local ZMQ sockets, connected to the kernel's stream
    environments   Python environments of frameworks on workers
    registry       which kernels belong to this machine's servers
    agents         calls to agents without a kernel

It must not know the Jupyter server: nbclient or a terminal use all of it without one.
"""
