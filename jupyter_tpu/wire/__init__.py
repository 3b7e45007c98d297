"""The wire protocol between client and agent, as pure functions and small state machines.

The code takes bytes and times as values and returns events. It must not depend on sockets, asyncio, processes or the
clock, and uses only the standard library, because the same code runs on the client and on the worker (Python 3.10).
Start with `frames`.

    frames     the envelope of everything on the wire
    hello      the first frames, which agree on a protocol version
    multipart  multipart messages as bytes
    entries    one message in a kernel's record
    replay     the client's cursor in a record: each seq once, in order
    requests   requests, numbered by the client so that the worker detects repeated requests
    flow       the limit on the bytes in flight
    byte_streams  connections beside it that carry raw bytes, to files and ports

`file_messages` is a protocol of its own, for the files of a synced folder.
"""
