"""Maintenance of nodes: announced, simulated or started by hand. Start with `maintenance`."""
