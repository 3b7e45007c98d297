"""The foundation of the emulator: API resources as values, their names, errors and messages, and virtual time.

It does not depend on the store, the transports or the product.
"""
