"""The foundation of the emulator: resources of the API as values, their names, errors and messages; virtual time.

Knows nothing of the store, the transports or the product.
"""
