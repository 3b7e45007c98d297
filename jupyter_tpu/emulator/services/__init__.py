"""Google's other services on the REST port: quota, billing, monitoring, Compute Engine. Start with `table`."""
