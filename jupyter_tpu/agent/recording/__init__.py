"""Record every message that a kernel emits: on disk, in order, up to a cap.

Start with `recorder`: it writes a kernel's messages to the `log` (whose files are `segment`s) and the `request_index`.
`output_protocol` is how the kernel numbers them, `watermark` how far they are on disk, `overflow` what a full disk did
not take. It knows Jupyter's message headers, and must know nothing of processes, sockets or clients.
"""
