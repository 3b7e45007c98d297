"""The project's limits (quota, capacity, reservations and settings), as values and errors only. Start with `rules`."""
