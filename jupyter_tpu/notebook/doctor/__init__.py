"""The doctor of a worker: find problems that keep this kernel from using its TPU, and their fixes.

`examine` gathers the `worker_facts`; `checks` turns them into findings and is pure. It changes nothing on the worker.
"""
