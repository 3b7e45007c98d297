"""The magic ``%tpu`` and its subcommands, ``%%tpu_time``, and the registration of all magics.

Start with `subcommands`, the table of subcommands, used to run a line and to print the help. `registration` registers
the magics.
"""
