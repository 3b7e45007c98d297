"""Scripted faults of API calls: requested by name, consumed in order. Start with `kinds`; `scripted` applies them."""
