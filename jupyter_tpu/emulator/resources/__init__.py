"""The foundation of the emulator: resources of the API as values, their names, errors and messages; virtual time.

It knows nothing of the store, the transports or the product.
"""
