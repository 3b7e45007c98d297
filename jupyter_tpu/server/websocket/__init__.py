"""A page's WebSocket to a kernel on a node: every message once and in order, over lost connections.

Start with `session`. Any other kernel's WebSocket is Jupyter Server's own.
"""
