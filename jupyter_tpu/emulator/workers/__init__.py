"""Emulated workers: their processes, home folders, chips and images on this computer. Start with `workers`."""
