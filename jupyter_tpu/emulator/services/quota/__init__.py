"""Cloud Quotas and Service Usage. Start with `limits`, through which both APIs read and set the engine's limits."""
