"""A proxy that breaks byte streams as networks do. Start with `verbs`; it knows nothing of the cloud."""
