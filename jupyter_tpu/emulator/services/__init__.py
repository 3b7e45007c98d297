"""Google's other services on the REST port: quota, billing, Compute Engine. Start with `table`."""
