"""Kernels on workers for Jupyter: kernelspecs, a provisioner, and a launcher for front ends without provisioners.

    kernelspecs    one per READY node, and one per environment on it
    provisioner    the kernel provisioner of jupyter_client; start reading here
    launcher       the provisioner as a program, run from a kernelspec's argv
    kernel_host    one kernel with its resources in this process
    remote_kernel  one kernel on a worker: start, shutdown, death report
    connections    SSH connections by node name; one background thread, one shared link per worker
    messages       local ZMQ sockets, connected to the kernel's stream
    environments   Python environments of frameworks on workers
    registry       kernels that belong to this machine's servers
    agents         calls to agents without a kernel

This package must not depend on Jupyter Server, because nbclient and terminals use it without a server.
"""
