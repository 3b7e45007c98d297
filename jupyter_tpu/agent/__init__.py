"""The agent: one process on each worker that owns the kernels and records every message they emit.

Runs on the worker (Python 3.10, standard library, pyzmq and psutil), in an environment of its own, under a supervisor,
and outlives every connection; kernels in turn outlive the agent, which finds them again when it starts.

    bootstrap → prepare → supervisor → main (server, session, calls) → kernels (process, sockets, record)

`archive` is the laptop's side: it packs this folder. `kernels.kernel_bootstrap` runs inside each kernel, and `relay`
stands in for a forwarded socket where the SSH server forbids one.
"""
