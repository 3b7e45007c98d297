"""A proxy that breaks byte streams as networks do, independent of the cloud. Start with `verbs`."""
