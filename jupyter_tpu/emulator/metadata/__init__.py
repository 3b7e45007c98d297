"""The metadata server of each worker.

Start with `tree`, which is what it shows; `query` reads it, `server` serves it.
"""
