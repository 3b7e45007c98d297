"""The API methods on nodes, and their validation. Start with `methods`; later effects are in `effects`."""
