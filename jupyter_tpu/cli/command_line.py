"""Parse a command line, run its command and report the outcome."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import cast

from jupyter_tpu.cli.arguments import MODULES
from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.overview import Overview
from jupyter_tpu.cli.terminal import note, report
from jupyter_tpu.commands.grammar import UsageError
from jupyter_tpu.commands.shared import RENAMED
from jupyter_tpu.errors import Text, TpuError
from jupyter_tpu.i18n import _, command_line_language
from jupyter_tpu.journal.saved_choices import apply_saved_choices
from jupyter_tpu.standard_streams import drop_output

Run = Callable[[argparse.Namespace], int]


def run(argv: Sequence[str] | None = None) -> int:
    """Parse arguments (by default the process's own), run the command and return its exit code; see `cli.main`."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    with command_line_language(is_english="--json" in arguments):
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["emulator"]:  # the emulator's commands have their own parser
        from jupyter_tpu.cli.other import run_emulator

        return run_emulator(arguments[1:])
    arguments = _renamed(arguments)
    parser = Overview(*arguments[:1])
    if not arguments:
        # help that the user didn't request is an error, so print it to standard error
        parser.print_help(sys.stderr)
        return 2
    try:
        options = _parsed(parser, arguments)
    except UsageError as error:
        return _usage_error(error, as_json="--json" in arguments)
    except TpuError as error:  # an argument's type function rejected the value
        report(error, as_json="--json" in arguments)
        return 1
    return _perform(options)


def _renamed(arguments: list[str]) -> list[str]:
    """Replace an old command name with the current one, and print a note on stderr."""
    if not arguments or arguments[0] not in RENAMED:
        return arguments
    old, now = arguments[0], RENAMED[arguments[0]]
    note(
        _(
            "`jupyter tpu {old}` is now `jupyter tpu {now}`. The old name works until the next version.",
            old=old,
            now=" ".join(now),
        )
    )
    return [*now, *arguments[1:]]


def _usage_error(error: UsageError, *, as_json: bool) -> int:
    """Report a usage error and return exit code 2, the conventional code for it."""
    # programs that read JSON get a JSON error even for a wrong option
    if as_json:
        report(error, as_json=True)
    else:
        error.parser.print_usage(sys.stderr)
        note(_("{prog}: error: {message}", prog=error.parser.prog, message=_(error.message)))
    return 2


def _load_prices(options: argparse.Namespace) -> None:
    """Load the prices last read from the Billing Catalog, for commands that use a cloud."""
    if hasattr(options, "endpoint"):  # only commands that use a cloud have this option
        from jupyter_tpu.fleet.spend.price_updater import PriceUpdater

        PriceUpdater.of_user(cloud_settings(options)).apply_stored(time.time())


def _parsed(parser: Overview, arguments: list[str]) -> argparse.Namespace:
    """Parse the arguments; arguments after ``--`` are for another program and become `options.passed_on`."""
    own, passed_on = arguments, list[str]()
    if "--" in arguments:
        at = arguments.index("--")
        own, passed_on = arguments[:at], arguments[at + 1 :]
    # argparse would list all commands; `refuse` suggests the closest match
    if own and not own[0].startswith("-") and own[0] not in parser.commands.choices:
        parser.refuse(own[0])
    options, unknown = parser.parse_known_args(own)
    if unknown:  # show the usage of this command, not that of the whole program
        own_parser = getattr(options, "parser", parser)
        own_parser.error(_("{argument} is not a valid argument here.", argument=" ".join(unknown)))
    # only `ssh` and `demo` pass arguments on; for other commands, they are probably misplaced
    if passed_on and not options.command.passes_on:
        parser.error(_("unexpected arguments after --: {passed_on}", passed_on=" ".join(passed_on)))
    options.passed_on = passed_on
    return options


def _function(command: str) -> Run:
    """Import the module of a command, and return the function that runs it."""
    module = next(name for name, commands in MODULES.items() if command in commands)
    return cast(Run, getattr(import_module(f"jupyter_tpu.cli.{module}"), f"run_{command.replace('-', '_')}"))


def _perform(options: argparse.Namespace) -> int:
    try:
        apply_saved_choices(os.environ)
        _load_prices(options)
        return _function(options.command.name)(options)
    except UsageError as error:  # for example mutually exclusive arguments, which the command itself checks
        return _usage_error(error, as_json=getattr(options, "json", False))
    except TpuError as error:
        report(error, as_json=getattr(options, "json", False))
        return 1
    except BrokenPipeError:  # as in `jupyter tpu list | head`
        drop_output()
        return 1
    except OSError as error:
        return _local_failure(error, as_json=getattr(options, "json", False))


def _local_failure(error: OSError, *, as_json: bool) -> int:
    """Report a local error: a full disk, missing permission for a file, or a closed output."""
    what = f"{error.filename}: " if error.filename else ""
    failure = TpuError(
        Text(
            "Could not read or write a file on this machine: {what}{reason}.", what=what, reason=error.strerror or error
        ),
        hint=_hint_for(error),
        raw=repr(error),
    )
    try:
        report(failure, as_json=as_json)
        sys.stdout.flush()
    except OSError:  # writing to standard output has failed
        drop_output()
        report(failure, as_json=False)
    return 1


def _hint_for(error: OSError) -> str:
    if isinstance(error, (FileNotFoundError, IsADirectoryError, NotADirectoryError)):
        return "Check the path. `jupyter tpu list` shows which nodes exist."
    return (
        "Free disk space or fix the permissions of the file or folder, then try again; `jupyter tpu list` lists the "
        "existing nodes."
    )
