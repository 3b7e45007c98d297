"""Keep a folder on this machine and a folder on a node equal, without ever overwriting a change.

Start with `reconcile` (which versions each side keeps), then read `actions` (how one side gets there). Both are pure:
they take what was found on the two sides, and neither reads files nor looks at the clock. `session` runs one sync: it
asks the replicas of both sides (`jupyter_tpu.agent.files`) what is there, and `transfers` performs the actions.
"""
