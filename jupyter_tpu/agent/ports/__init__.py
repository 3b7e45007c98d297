"""TCP ports on this worker that the user's own processes listen on."""
