"""The emulated cloud: Google Cloud TPU on this machine's loopback, in a process of its own.

Start with `core`: it performs every call. gRPC and REST are in front of it (`transport`), next to them a control API
(`control`) with which tests script faults and read the money ledger. Workers are ordinary processes behind an SSH
server on loopback (`workers`, `ssh`). `resources.behaviours` lists what is known of the real service and what is only
assumed.

Of the product it knows only the catalogue of accelerators and the shared base modules, so that it cannot repeat a
mistake of the product; the contract in pyproject.toml names the two exceptions and their reasons.
"""
