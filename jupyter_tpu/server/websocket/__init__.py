"""The WebSocket between a page and a kernel on a node: delivers each message once, in order, despite lost connections.

Start with `page_session` (one page, from opening to closing); `kernel_socket` connects it to Jupyter Server. A page is
the client at the other end of the WebSocket: a notebook in a browser, VS Code or a script. Jupyter Server itself
handles the WebSockets of other kernels.
"""
