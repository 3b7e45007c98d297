"""The emulated cloud: Google Cloud TPU on this machine's loopback, in a process of its own.

One core (`core`, on `store` and `clock`), two skins (`grpc_skin`, `rest_skin`) and a control API (`control_routes`) by
which tests script faults and read the money ledger. Workers are ordinary processes behind an SSH server on loopback.
What is known of the real service and what is only assumed is listed by `behaviours`.
"""
