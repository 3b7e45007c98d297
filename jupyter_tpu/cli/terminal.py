"""What the user reads: tables, progress, errors, questions.

Data goes to standard output, everything else to standard error, so that a pipe gets data only. Text that came from the
cloud passes `plain` first: it may hold escape sequences that would re-program the terminal.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from jupyter_tpu.errors import TpuError
from jupyter_tpu.errors import plain as plain

QUESTION_END = " [y/N] "
"""Ends the line of a question, on standard error."""

SCHEMA_VERSION = 1
"""Of all JSON documents of the command line; higher once a field of one goes, or means something else."""


def say(text: str = "") -> None:
    """A line of data or of an answer."""
    print(text, flush=True)  # noqa: T201 - this module is where printing happens


def note(text: str) -> None:
    """A line beside the data."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - this module is where printing happens


def warn(text: str) -> None:
    """Something that the user should know though nothing failed."""
    note(f"warning: {plain(text)}")


def say_json(data: Mapping[str, Any]) -> None:
    """The one JSON document of a command run with ``--json``, with the version of its schema."""
    say(json.dumps({"schema_version": SCHEMA_VERSION, **data}, indent=2))


def say_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns aligned to the widest cell; cells are made plain here."""
    for line in table_lines(header, rows):
        say(line)


def table_lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The same as lines."""
    table = [tuple(header), *(tuple(plain(cell) for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def report(error: TpuError, *, as_json: bool) -> None:
    """An error in at most three lines: what failed, what exists now, what to do."""
    if as_json:
        say_json({"error": error.to_json()})
        return
    note(f"error: {plain(error.message)}")
    if error.exists:
        note(f"  now: {plain(error.exists)}")
    if error.hint:
        note(f"   do: {plain(error.hint)}")


def is_confirmed(question: str) -> bool:
    """Ask the person at the terminal; without one the answer is no."""
    if not sys.stdin.isatty():
        return False
    print(f"{question}{QUESTION_END}", end="", file=sys.stderr, flush=True)  # noqa: T201 - a prompt has no line end
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class Progress:
    """The phase that work is in: one line rewritten on a terminal, a line per change elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._shown = ""

    def show(self, text: str) -> None:
        line = plain(text)
        if line == self._shown:
            return
        self._shown = line
        self._write(f"\r\x1b[K{_cut(line)}" if self._is_terminal else f"{line}\n")

    def end(self) -> None:
        """Leave the last line standing."""
        if self._is_terminal and self._shown:
            self._write("\n")
        self._shown = ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _cut(line: str) -> str:
    width = shutil.get_terminal_size().columns - 1
    return line if len(line) <= width else line[: max(width - 1, 0)] + "…"
