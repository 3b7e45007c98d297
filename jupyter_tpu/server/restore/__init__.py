"""Restore outputs when a page is reopened, and kernels when the server is restarted, from the records on the nodes.

Start with `kernel_outputs` (the outputs of a reopened notebook) and `adoption` (kernels of an earlier server). Nothing
here depends on WebSockets or routes.
"""
