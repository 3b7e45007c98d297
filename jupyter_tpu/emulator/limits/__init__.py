"""The emulated project's rules: settings, quotas, capacity and reservations. Start with `rules`."""
