"""Who may call: bearer tokens, peers on loopback, IAM permissions."""
