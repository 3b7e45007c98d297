"""Cloud Quotas and Service Usage. Start with `limits`, through which both read and set the engine's limits."""
