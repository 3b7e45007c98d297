"""Copy files between this machine and nodes: atomic per file, and resumable after a lost connection.

The package must not know SSH: the files of a node are reached through the interface in `files`. Start reading at
`copying`.
"""
