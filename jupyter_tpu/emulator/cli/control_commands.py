"""``jupyter tpu emulator preempt``, ``stockout``, ``quota`` …: the commands that control a running emulator.

Their names are in `commands.CONTROLS`, so that a command is found without loading this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jupyter_tpu.emulator.cli.lifecycle_commands import COMMANDS as LIFE
from jupyter_tpu.emulator.cli.limit_commands import COMMANDS as RULES
from jupyter_tpu.emulator.cli.options import Command
from jupyter_tpu.emulator.cli.view_commands import COMMANDS as VIEWS

COMMANDS: Mapping[str, Command] = {command.name: command for command in (*VIEWS, *LIFE, *RULES)}


def main(argv: Sequence[str]) -> int:
    """Run the command that the first argument names; return the exit status."""
    return COMMANDS[argv[0]].main(argv[1:])
