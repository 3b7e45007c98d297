"""Long-running operations, due times and virtual time. Start with `timeline`; it knows nothing of nodes."""
