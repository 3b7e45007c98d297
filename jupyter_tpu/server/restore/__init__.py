"""Bring outputs and kernels back after a closed page or a restarted server, from the records on the nodes."""
