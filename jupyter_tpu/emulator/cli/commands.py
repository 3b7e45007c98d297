"""The emulator's command line: the emulated cloud itself and its tools."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence

from jupyter_tpu.standard_streams import prepare_streams

TOOLS: Mapping[str, str] = {
    "proxy": "cli.proxy",
    "fault": "cli.fault",
    "record": "cli.record",
    "replay-check": "recording.replay_check",
}
"""The module with the function `main` of each tool, imported only when needed."""

CONTROLS = frozenset(
    [
        "capacity",
        "clock",
        "ledger",
        "maintenance",
        "metrics",
        "preempt",
        "project",
        "quota",
        "reserve",
        "reset",
        "state",
        "stockout",
    ]
)
"""The commands of `control_commands`. They are listed here so that a command is found without importing its module."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the first argument names, or else the emulator; return the exit status."""
    # with closed standard streams, a process would fail at its first line of output
    prepare_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    # import late: the emulator itself needs gRPC, but the commands that control it do not
    if arguments and arguments[0] in CONTROLS:
        from jupyter_tpu.emulator.cli import control_commands

        return control_commands.main(arguments)
    tool = TOOLS.get(arguments[0]) if arguments else None
    # without a known command, the options belong to the emulator itself
    module = importlib.import_module(f"jupyter_tpu.emulator.{tool or 'process'}")
    status: int = module.main(arguments[1:] if tool else arguments)
    return status
