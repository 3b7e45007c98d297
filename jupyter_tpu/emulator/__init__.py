"""The emulated cloud: Google Cloud TPU on this machine's loopback, in a process of its own.

One `core`, gRPC and REST before it (`transport`), and a control API (`control`) by which tests script faults and read
the money ledger. Workers are ordinary processes behind an SSH server on loopback. What is known of the real service and
what is only assumed is listed by `resources.behaviours`. Of the product only the catalogue of accelerators is known,
so that no mistake of the product is repeated.
"""
