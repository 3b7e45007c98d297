"""The set-up: find the missing steps before a user's first node, and perform them.

Start with `engine`: it checks the five steps of `steps` and performs the action of one. The command line and the server
show the same steps. `trial` runs the emulated cloud beside the user's own.
"""
