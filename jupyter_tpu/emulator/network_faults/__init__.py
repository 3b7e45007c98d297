"""A proxy that simulates network faults. It does not depend on the cloud. Start with `verbs`."""
