"""The emulator's command line: the emulated cloud itself, and the tools around it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence

TOOLS: Mapping[str, str] = {
    "proxy": "fault_proxy_command",
    "fault": "fault_command",
    "record": "record_command",
    "replay-check": "record_replay",
}
"""Module of this package whose `main` runs a tool, loaded only when it is asked for."""

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
"""Commands of `control_commands`, which talk to a running emulator."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a tool, or else the emulator. Returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in CONTROLS:
        from jupyter_tpu.emulator import control_commands

        return control_commands.main(arguments)
    tool = TOOLS.get(arguments[0]) if arguments else None
    module = importlib.import_module(f"jupyter_tpu.emulator.{tool or 'process'}")
    status: int = module.main(arguments[1:] if tool else arguments)
    return status
