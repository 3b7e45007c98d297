"""Cloud Quotas and Service Usage."""
