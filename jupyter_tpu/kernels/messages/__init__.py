"""Deliver a kernel's messages from its record on the worker to local ZMQ sockets and other readers.

Start reading at `fanout`. Each reader gets every message once and in order, at its own speed. This package must not
depend on nodes or SSH.
"""
