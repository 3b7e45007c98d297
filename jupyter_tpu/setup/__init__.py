"""The set-up: what is missing between a user and their first node, step by step, and doing it.

Start with `engine`: it checks the five steps of `steps` and performs the action of one. The command line and the server
show the same steps. `trial` runs the emulated cloud beside the user's own.
"""
