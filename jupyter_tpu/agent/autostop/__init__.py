"""Stop this worker's node according to its auto-stop rules, even without a client.

Start with `daemon` (the guard); the rules are in `jupyter_tpu.autostop`, which clients use too. `activity` observes
whether the node is in use; `node_api` stops or deletes it.
"""
