"""A kernel's messages on this computer: from its record on the worker to local ZMQ sockets and other readers.

Start with `fanout`: each reader gets every message once and in order, at its own speed. Knows nothing of nodes or SSH.
"""
