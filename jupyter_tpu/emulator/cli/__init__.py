"""``jupyter tpu emulator``: run an emulator, or steer a running one. Start with `commands`."""
