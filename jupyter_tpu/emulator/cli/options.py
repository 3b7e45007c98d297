"""Options, errors and output formats shared by the commands that control a running emulator."""

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

REFUSED = 1  # exit status of every error; argparse itself exits with 2


def number(text: str) -> float:
    """Parse a number that JSON can express. Raises ArgumentTypeError for anything else."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value


def no_arguments(_: argparse.ArgumentParser) -> None:
    """Do nothing, because the command has no arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command that controls a running emulator.

    Attributes:
        name: the word after ``jupyter tpu emulator``.
        perform: performs the command and returns the value that ``--json`` prints; raises BadValue for wrong arguments.
        format_lines: formats that value as lines for display.
        notes: text that the help shows after the arguments, with its line breaks.
    """

    name: str
    summary: str
    perform: Callable[[EmulatorControl, argparse.Namespace], Any]
    format_lines: Callable[[Any], Iterable[str]]
    arguments: Callable[[argparse.ArgumentParser], None] = no_arguments
    notes: str = ""

    def parser(self) -> argparse.ArgumentParser:
        """Return the command's argument parser."""
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
        """Run the command; return the exit status."""
        options = self.parser().parse_args(argv)
        try:
            answer = _answer_of(self, options)
        except TpuError as error:
            return _report(error, as_json=options.json)
        lines = [json.dumps(answer, indent=2)] if options.json else [plain(line) for line in self.format_lines(answer)]
        return _print(lines)


def add_emulator_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the emulator's address and the output format."""
    parser.add_argument(
        "--emulator",
        default=os.environ.get(ADDRESS_VARIABLE, ""),
        metavar="URL",
        help=f"REST address that the emulator prints (default: ${ADDRESS_VARIABLE})",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def _answer_of(command: Command, options: argparse.Namespace) -> Any:
    """Perform the command and return its result; raises TpuError if it fails."""
    if not options.emulator:
        raise BadInput(
            "No emulator given.",
            hint=f"Pass --emulator URL, or set {ADDRESS_VARIABLE}; an emulator prints its address when it starts.",
        )
    try:
        return command.perform(EmulatorControl(options.emulator), options)
    # show the emulator's own message, because it lists the valid values
    except ControlRefused as refusal:
        raise BadInput(
            refusal.message, exists="Nothing was changed.", hint=f"See `jupyter tpu emulator {command.name} --help`."
        ) from refusal
    except BadValue as error:
        raise BadInput(str(error), hint=f"See `jupyter tpu emulator {command.name} --help`.") from error
    # ValueError: the response is not JSON
    except (OSError, ValueError, HTTPException) as error:
        raise CloudUnavailable(
            f"No emulator responds at {options.emulator}: {error}",
            hint="Start one with `jupyter tpu emulator` or `jupyter tpu demo`, and use the REST address it prints.",
        ) from error


class BadValue(Exception):
    """The error for an invalid argument; the message gives the reason."""


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
    """Format rows as lines, each column as wide as its widest cell."""
    whole = [list(header), *map(list, rows)]
    widths = [max(len(row[column]) for row in whole) for column in range(len(header))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in whole]
