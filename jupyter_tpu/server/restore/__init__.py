"""Restore outputs after a closed page and kernels after a restarted server, from the records on the nodes.

Start with `kernel_outputs` (what a notebook shows when it is reopened) and `adoption` (kernels of an earlier server).
Nothing here knows WebSockets or routes.
"""
