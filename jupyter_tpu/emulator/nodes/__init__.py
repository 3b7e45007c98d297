"""The API methods on nodes, and their validation. Start with `methods`; effects that happen later are in `effects`."""
