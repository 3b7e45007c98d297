"""The API methods on nodes, and what they validate. Start with `methods`; what happens later is in `effects`."""
