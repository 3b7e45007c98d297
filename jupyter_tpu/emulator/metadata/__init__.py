"""The metadata server of each worker.

Start with `tree`, its content; `query` reads it, `server` serves it.
"""
