"""Commands about what happens on a node: auto-stop, chips, processes, environments."""
