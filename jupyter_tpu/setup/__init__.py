"""The set-up: finds, step by step, what is missing before a user's first node, and sets it up.

Start with `engine`: it checks the five steps of `steps` and performs the action of one. The command line and the server
show the same steps. `trial` runs the emulated cloud beside the user's own.
"""
