"""A kernel's messages on this computer: from its record on the worker to local ZMQ sockets and other readers.

Start reading at `fanout`: each reader gets every message once and in order, at its own speed. It must not know nodes or
SSH.
"""
