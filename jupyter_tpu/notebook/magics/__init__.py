"""The magic ``%tpu`` and its subcommands, ``%%tpu_time``, and the registration of all magics.

Start with `subcommands`, which finds the function for each subcommand, runs a line and prints the help. `registration`
registers the magics.
"""
