"""The agent: a process on each worker, which owns the kernels and records every message they emit.

Start with `main`. The agent runs on the worker (Python 3.10, standard library, pyzmq and psutil), in its own
environment and under a supervisor. It keeps running when a connection ends, and the kernels keep running when it exits.
A restarted agent finds the running kernels.

    bootstrap → prepare → supervisor → main (session, calls) → kernels (process, sockets) and recording

`archive` runs on the client and packs this folder. `kernels.kernel_bootstrap` runs inside each kernel, and `relay`
replaces socket forwarding where the SSH server forbids it. The agent must not depend on the client's computer, a cloud
account or a Jupyter server. Clients reach it only through the methods in `calls` and the frames in `session`.
"""
