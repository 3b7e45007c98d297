"""What the commands have in common that talk to a running emulator: options, errors, and two ways to print."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from jupyter_tpu.emulator.control.client import ADDRESS_VARIABLE, ControlRefused, EmulatorControl
from jupyter_tpu.errors import BadInput, CloudUnavailable, TpuError, plain
from jupyter_tpu.standard_streams import write_answer

REFUSED = 1


def number(text: str) -> float:
    """For argparse: raises ArgumentTypeError for what is no number that JSON can tell."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value


def no_arguments(_: argparse.ArgumentParser) -> None:
    """Of a command that takes none of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command.

    Attributes:
        name: what follows ``jupyter tpu emulator``.
        ask: does it, and returns what ``--json`` prints; raises ValueError for what cannot be meant.
        words: the same for people, a line each.
        notes: after the arguments in the help; with line breaks they are kept.
    """

    name: str
    summary: str
    ask: Callable[[EmulatorControl, argparse.Namespace], Any]
    words: Callable[[Any], Iterable[str]]
    arguments: Callable[[argparse.ArgumentParser], None] = no_arguments
    notes: str = ""

    def parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            prog=f"jupyter tpu emulator {self.name}",
            description=self.summary,
            epilog=self.notes or None,
            formatter_class=argparse.RawDescriptionHelpFormatter if "\n" in self.notes else argparse.HelpFormatter,
        )
        self.arguments(parser)
        add_emulator_options(parser)
        return parser

    def main(self, argv: Sequence[str]) -> int:
        """Returns the exit status."""
        options = self.parser().parse_args(argv)
        try:
            answer = _asked(self, options)
        except TpuError as error:
            return _report(error, as_json=options.json)
        lines = [json.dumps(answer, indent=2)] if options.json else [plain(line) for line in self.words(answer)]
        return _print(lines)


def add_emulator_options(parser: argparse.ArgumentParser) -> None:
    """Which emulator, and how to print."""
    parser.add_argument(
        "--emulator",
        default=os.environ.get(ADDRESS_VARIABLE, ""),
        metavar="URL",
        help=f"REST address of the emulator, as it prints it (default: ${ADDRESS_VARIABLE})",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def _asked(command: Command, options: argparse.Namespace) -> Any:
    """Raises TpuError with what failed and what to do."""
    if not options.emulator:
        raise BadInput(
            "It is not known which emulator is meant.",
            hint=f"Give --emulator URL, or set {ADDRESS_VARIABLE}; an emulator prints its address when it starts.",
        )
    try:
        return command.ask(EmulatorControl(options.emulator), options)
    except ControlRefused as refusal:
        raise BadInput(
            refusal.message, exists="Nothing was changed.", hint=f"See `jupyter tpu emulator {command.name} --help`."
        ) from refusal
    except BadValue as error:
        raise BadInput(str(error), hint=f"See `jupyter tpu emulator {command.name} --help`.") from error
    except (OSError, ValueError, HTTPException) as error:
        raise CloudUnavailable(
            f"No emulator answers at {options.emulator}: {error}",
            hint="Start one with `jupyter tpu emulator` or `jupyter tpu demo`, and take the REST address it prints.",
        ) from error


class BadValue(Exception):
    """What the command was given cannot be meant; the message says why."""


def _report(error: TpuError, *, as_json: bool) -> int:
    if as_json:
        _print([json.dumps({"error": error.to_json()}, indent=2)])
        return REFUSED
    parts = (("error", error.message), ("  now", error.exists), ("   do", error.hint))
    sys.stderr.write("".join(f"{label}: {plain(text)}\n" for label, text in parts if text))
    return REFUSED


def _print(lines: Iterable[str]) -> int:
    return write_answer("".join(f"{line}\n" for line in lines))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns aligned to the widest cell."""
    whole = [list(header), *map(list, rows)]
    widths = [max(len(row[column]) for row in whole) for column in range(len(header))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in whole]
