"""The grammar of our commands, as data: the words after ``jupyter tpu``, and after ``%tpu`` in a notebook.

Start with `grammar`. A command that exists in both has one entry, in `shared`, so that its options have the same names
and meanings. Pure, and used on the worker: Python 3.10 and the standard library. It must not know what commands do.
"""
