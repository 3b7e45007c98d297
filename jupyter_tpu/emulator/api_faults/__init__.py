"""Scripted faults of API calls, requested by name and consumed in order.

Start with `kinds`; `scripted` applies them.
"""
