"""The wire protocol between client and agent, as pure functions and small state machines.

Bytes and times come in as values, events come out. It must not know sockets, asyncio, processes or the clock, and uses
the standard library only, because the same code runs on the laptop and on the worker (Python 3.10). Start reading at
`frames`.

    frames     the envelope of everything on the wire
    hello      the first frames, which agree on a protocol version
    messages   multipart messages as bytes
    entries    one message in a kernel's record
    replay     the client's cursor in a record: each seq once, in order
    requests   numbering on one side, "seen before" on the other
    flow       how many bytes may be in flight
"""
