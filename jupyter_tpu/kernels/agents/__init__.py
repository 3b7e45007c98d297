"""Questions to the agents of workers, without a front end's kernel in between."""
