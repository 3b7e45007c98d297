"""Pages and APIs of programs on a node, through this server. Start reading at `jupyter_tpu.server.routes.ports`.

A request is for a node and a port, never for a host name, and goes through the node's link. This package must not open
network connections.
"""
