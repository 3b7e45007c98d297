"""Setup: find the missing steps before a user's first node, and perform them.

Start with `engine`, which checks the five steps in `steps` and performs their actions. The command line and the server
show the same steps. `trial` runs an emulated cloud next to the user's own.
"""
