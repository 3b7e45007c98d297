"""Commands for the activity on a node: autostop, extend, top, ps, release, env.

The commands call the agents on the node's workers. Start with `node_chips`, which opens the connections.
"""
