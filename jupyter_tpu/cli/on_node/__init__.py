"""Commands about what runs on a node: autostop, extend, top, ps, release, env.

They ask the agents on its workers; start with `node_chips`, which opens the connections.
"""
