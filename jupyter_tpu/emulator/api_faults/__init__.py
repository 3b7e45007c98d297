"""Scripted faults of API calls: asked for by name, consumed in order."""
