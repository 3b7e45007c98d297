"""Kernels on workers, as Jupyter sees them: kernelspecs, a provisioner, and a launcher for who takes no provisioners.

    kernelspecs    one per READY node
    provisioner    what KernelManager starts (jupyter_client's plug-in point)
    launcher       the same as a program, from a kernelspec's argv
    connections    from a node's name to an SSH connection; one background thread, one shared link per worker
    remote_kernel  one kernel on a worker: starts, ends, reports its death
    messages       local ZMQ sockets, joined to the kernel's stream

Knows nothing of the server: nbclient or a terminal use all of it with no Jupyter server about.
"""
