"""Setup: find the steps that a user must complete before creating a first node, and perform them.

Start with `engine`, which checks the five steps in `steps` and performs their actions. The command line and the server
show the same steps. `trial` runs an emulated cloud next to the user's own cloud.
"""
