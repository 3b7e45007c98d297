"""The machines behind nodes: processes, homes, chips and images on this computer. Start with `workers`."""
