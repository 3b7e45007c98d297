"""The control API ``/emulator/v1/…``: what tests and the demo ask of the emulator itself, and a client for it."""
