"""Limits of the project: quota, capacity, reservations and switches. Values and refusals only; start with `rules`."""
