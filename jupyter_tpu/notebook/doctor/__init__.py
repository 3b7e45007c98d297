"""The doctor of a worker: finds what could keep this kernel from using its TPU, and how to fix it.

`examine` gathers the `worker_facts`; `checks` turns them into findings and is pure. It changes nothing on the worker.
"""
