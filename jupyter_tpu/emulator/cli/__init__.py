"""``jupyter tpu emulator``: run an emulator, or control a running one. Start with `commands`."""
