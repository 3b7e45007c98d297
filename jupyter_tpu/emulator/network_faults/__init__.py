"""A proxy that does to byte streams what networks do. Knows nothing of the cloud."""
