"""Access control: owners of loopback connections, bearer tokens, IAM permissions. Start with `callers`."""
