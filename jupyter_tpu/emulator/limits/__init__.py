"""Limits of the project: quota, capacity, reservations and switches. Only values and errors; start with `rules`."""
