"""The metadata server of each worker.

Start with `tree`, which builds its content; `query` reads the tree and `server` serves it.
"""
