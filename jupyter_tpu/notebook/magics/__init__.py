"""The magic ``%tpu`` and its subcommands, ``%%tpu_time``, and the registration of all magics.

Start with `table`: it lists the subcommands, runs a line and prints the help. `commands` registers the magics.
"""
