"""The basics of the emulator: the API's resources, their names, errors and messages, and virtual time.

It does not depend on the store, on the transports or on jupyter_tpu outside the emulator.
"""
