"""``%tpu`` and its words.

Start with `table`: each word, what it does and its help. `commands` registers the magics in IPython.
"""
