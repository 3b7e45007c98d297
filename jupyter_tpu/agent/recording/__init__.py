"""Record every message that a kernel emits, on disk, in order, capped.

Start with `recorder`: it takes a kernel's messages into the `log` (whole files: `segment`) and the `request_index`.
Knows Jupyter's message headers; knows nothing of processes, sockets or clients.
"""
