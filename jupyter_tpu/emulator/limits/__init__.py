"""What the project may have: quota, capacity, reservations, switches. Start with `rules`."""
