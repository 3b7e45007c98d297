"""Restore outputs after a closed page and kernels after a restarted server, from the records on the nodes.

Start with `kernel_outputs` (the outputs of a reopened notebook) and `adoption` (kernels of an earlier server). Nothing
here depends on WebSockets or routes.
"""
