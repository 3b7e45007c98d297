"""The command line as a whole: its commands, and how a run ends."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import cast

from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.overview import Overview, UsageError
from jupyter_tpu.cli.terminal import note, report
from jupyter_tpu.errors import TpuError

Run = Callable[[argparse.Namespace], int]


_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "nodes.list": ("list", "describe"),
    "nodes.create": ("create",),
    "nodes.search": ("search",),
    "nodes.queue": ("queue",),
    "nodes.change": ("stop", "start", "delete"),
    "nodes.kernels": ("kernels",),
    "on_node.env": ("env",),
    "on_node.top": ("top",),
    "on_node.processes": ("ps", "release"),
    "on_node.autostop": ("autostop", "extend"),
    "nodes.access": ("ssh", "ssh-config", "kernelspec"),
    "spend.grant": ("grant",),
    "spend.cost": ("cost",),
    "spend.budget": ("budget",),
    "spend.audit": ("audit",),
    "nodes.recover": ("recover",),
    "spend.quota": ("quota",),
    "spend.cleanup": ("cleanup",),
    "nodes.doctor": ("doctor",),
    "demo.command": ("demo",),
    "other": ("emulator", "version"),
}
"""What each module of this package adds to the line."""

_RENAMED: Mapping[str, tuple[str, ...]] = {
    "brakes": ("autostop",),
    "free": ("release",),
    "keep": ("extend",),
    "panic": ("stop", "--all"),
    "sweep": ("cleanup",),
    "who": ("ps",),
}
"""Commands as they were called before, and what to type now; they work for one more minor version."""


def build_parser(command: str = "") -> Overview:
    """All commands; or those of one module, where it has the one that was typed, since importing all takes a while."""
    parser = Overview()
    having = [module for module, commands in _COMMANDS.items() if command in commands]
    for module in having or _COMMANDS:
        import_module(f"jupyter_tpu.cli.{module}").add_commands(parser.commands)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Parse and perform; see `jupyter_tpu.cli.main` for the exit codes."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["emulator"]:  # it has a parser of its own
        from jupyter_tpu.cli.other import run_emulator

        return run_emulator(arguments[1:])
    arguments = _renamed(arguments)
    parser = build_parser(*arguments[:1])
    if not arguments:
        parser.print_help(sys.stderr)
        return 2
    try:
        options = _parsed(parser, arguments)
    except UsageError as error:
        return _misused(error, as_json="--json" in arguments)
    return _performed(options)


def _renamed(arguments: list[str]) -> list[str]:
    """The arguments with the present name of the command, and a note on stderr where they had an old one."""
    if not arguments or arguments[0] not in _RENAMED:
        return arguments
    old, now = arguments[0], _RENAMED[arguments[0]]
    note(f"`jupyter tpu {old}` is now `jupyter tpu {' '.join(now)}`. The old name works until the next version.")
    return [*now, *arguments[1:]]


def _misused(error: UsageError, *, as_json: bool) -> int:
    """Exit code 2, as of all programs whose command line cannot be understood."""
    if as_json:
        report(error, as_json=True)
    else:
        error.parser.print_usage(sys.stderr)
        note(f"{error.parser.prog}: error: {error.message}")
    return 2


def _take_prices(options: argparse.Namespace) -> None:
    """Those of the Billing Catalog that are kept on this machine, for commands that speak with a cloud."""
    if hasattr(options, "endpoint"):
        from jupyter_tpu.fleet.spend.prices import Pricing

        Pricing.of_user(cloud_settings(options)).take_kept(time.time())


def _parsed(parser: Overview, arguments: list[str]) -> argparse.Namespace:
    """What follows ``--`` is for another program and becomes `options.passed_on`."""
    own, passed_on = arguments, list[str]()
    if "--" in arguments:
        at = arguments.index("--")
        own, passed_on = arguments[:at], arguments[at + 1 :]
    if own and not own[0].startswith("-") and own[0] not in parser.commands.choices:
        parser.refuse(own[0])
    options = parser.parse_args(own)
    if passed_on and not getattr(options, "takes_more", False):
        parser.error(f"unexpected arguments after --: {' '.join(passed_on)}")
    options.passed_on = passed_on
    return options


def _performed(options: argparse.Namespace) -> int:
    try:
        _take_prices(options)
        return cast(Run, options.run)(options)
    except UsageError as error:  # what only the command itself can see, such as two arguments that exclude each other
        return _misused(error, as_json=getattr(options, "json", False))
    except TpuError as error:
        report(error, as_json=getattr(options, "json", False))
        return 1
    except BrokenPipeError:  # `jupyter tpu list | head`
        _drop_output()
        return 1
    except OSError as error:
        return _failed_here(error, as_json=getattr(options, "json", False))


def _failed_here(error: OSError, *, as_json: bool) -> int:
    """This machine does not allow it: a full disk, a folder that may not be written, an output that takes nothing."""
    what = f"{error.filename}: " if error.filename else ""
    told = TpuError(
        f"This machine refused to read or write: {what}{error.strerror or error}.",
        hint=_hint_for(error),
        raw=repr(error),
    )
    try:
        report(told, as_json=as_json)
        sys.stdout.flush()
    except OSError:  # it was the output
        _drop_output()
        report(told, as_json=False)
    return 1


def _hint_for(error: OSError) -> str:
    if isinstance(error, (FileNotFoundError, IsADirectoryError, NotADirectoryError)):
        return "Check the path. `jupyter tpu list` shows which nodes exist."
    return "Free disk space or fix the permissions, then try again; `jupyter tpu list` shows what exists."


def _drop_output() -> None:
    """What could not be written is not tried again at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
