"""The grammar of our commands as data: the words after ``jupyter tpu``, or after ``%tpu`` in a notebook.

Start with `grammar`. A command that exists in both places has a single entry in `shared`, so that its options have the
same names and meanings. This package does no I/O and also runs on the worker, so it uses only Python 3.10 and the
standard library. It must not depend on the commands' implementation.
"""
