"""The control API ``/emulator/v1/…``, by which tests and the demo steer the emulator, and a client for it."""
