"""The worker's part of `doctor`: find problems that prevent this kernel from using its TPU, and their fixes.

`examine` gathers the `worker_facts`; `checks` turns them into findings and is pure. Nothing on the worker is changed.
"""
