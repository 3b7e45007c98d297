"""What client and agent say to each other, as pure functions and small state machines.

Bytes and times come in as values, events come out: no sockets, no asyncio, no clock, standard library only, because
the same code runs on the laptop and on the worker (Python 3.10).

    frames     the envelope of everything on the wire
    hello      versions are agreed on before anything else
    messages   multipart messages as bytes
    entries    one message in a kernel's record
    replay     the client's cursor in a record: each seq once, in order
    requests   numbering on one side, "seen before" on the other
    flow       how many bytes may be on their way
"""
