"""The API methods on nodes and what they validate; what happens later is in `emulator.effects`. Start with `methods`."""
