"""Serve one copy of a synced folder: list what changed, send and receive contents, replace files without losing any.

The same program serves the copy on the laptop and the copy on the node. Start with `replica`, which lists what it can
do. It never follows a symbolic link, and whatever it replaces or deletes is kept for a week in `.jupyter-tpu/replaced`.
"""
