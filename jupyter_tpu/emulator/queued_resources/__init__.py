"""Queued resources: the methods, and the agenda that moves each through its states."""
