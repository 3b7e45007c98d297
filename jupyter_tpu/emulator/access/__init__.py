"""Who may call: owners of connections on loopback, bearer tokens, IAM permissions. Start with `callers`."""
