"""What happens later: long-running operations, due times, virtual time."""
