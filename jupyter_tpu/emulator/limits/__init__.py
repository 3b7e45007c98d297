"""The project's limits (quota, capacity, reservations and switches), as values and errors only. Start with `rules`."""
