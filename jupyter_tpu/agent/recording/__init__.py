"""Write every message that a kernel emits to a record on disk, in order, up to a size limit.

Start with `recorder`: it writes a kernel's messages to the `log` (whose files are `segment`s) and the `request_index`.
`output_protocol` defines how the kernel numbers messages, `watermark` tracks which messages are on disk, and `overflow`
buffers entries that a full disk rejected. This package reads Jupyter's message headers, but must not depend on
processes, sockets or clients.
"""
