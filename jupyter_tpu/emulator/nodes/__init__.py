"""The methods on nodes: what the API answers at once. What happens later is in `emulator.effects`."""
