"""The emulated cloud: Google Cloud TPU on this machine's loopback, in a separate process.

Start with `core`, which performs every call. `transport` serves `core` over gRPC and REST; `control` is an API with
which tests script faults and read the money ledger. Workers are ordinary processes behind an SSH server on loopback
(`workers`, `ssh`). `resources.behaviours` lists what is known about the real service and what is only assumed.

The emulator imports only the product's catalogue of accelerators and the shared base modules, so that it can't repeat a
mistake of the product. The import contract in pyproject.toml lists the two exceptions and their reasons.
"""
