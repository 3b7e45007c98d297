"""Long-running operations, due times and virtual time. Start with `timeline`, which does not depend on nodes."""
