"""Stop this worker's own node by its auto-stop rules, with or without a client.

Start with `daemon` (the guard); the rules are in `jupyter_tpu.autostop`, shared with the laptop. `activity` observes
whether the node is in use, `node_api` ends it.
"""
