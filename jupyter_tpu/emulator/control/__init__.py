"""The control API ``/emulator/v1/…``, with which tests and the demo control the emulator, and a client for it."""
