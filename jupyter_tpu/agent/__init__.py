"""The agent: one process on each worker that owns the kernels and records every message they emit.

Start with `main`. It runs on the worker (Python 3.10, standard library, pyzmq and psutil), in its own environment and
under a supervisor. It outlives every connection; the kernels outlive the agent, which finds them again when it starts.

    bootstrap → prepare → supervisor → main (session, calls) → kernels (process, sockets) and recording

`archive` is the laptop's side: it packs this folder. `kernels.kernel_bootstrap` runs inside each kernel, and `relay`
replaces socket forwarding where the SSH server forbids it. It must know nothing of laptops, cloud accounts or Jupyter
servers: clients reach it only through the methods in `calls` and the frames in `session`.
"""
