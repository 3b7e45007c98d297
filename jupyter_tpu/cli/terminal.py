"""Output to the terminal: tables, progress, errors, questions.

Data goes to standard output and everything else to standard error, so that a pipe receives only data. Text from the
cloud is passed through `plain`, because it may contain escape sequences that control the terminal.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from jupyter_tpu import errors
from jupyter_tpu.errors import TpuError, error_from_json
from jupyter_tpu.i18n import _, padded, width_of
from jupyter_tpu.i18n import shown as shown

QUESTION_END = " [y/N] "
"""The end of each question's line on standard error, by which `local.command_runner` recognises a question."""

SCHEMA_VERSION = 1
"""Version of all JSON documents of the command line. It is increased when a field is removed or changes its meaning."""


def plain(text: str, longest: int = 2000) -> str:
    """Translate the text, sanitize it for the terminal and return it as one line; see `shown` and `errors.plain`."""
    return errors.plain(shown(text), longest)


def echo(text: str = "") -> None:
    """Print a line of data or results on standard output."""
    print(shown(text), flush=True)  # noqa: T201 - this module is where printing happens


def note(text: str) -> None:
    """Print a message to standard error, because standard output is for data."""
    print(shown(text), file=sys.stderr, flush=True)  # noqa: T201 - this module is where printing happens


def warn(text: str) -> None:
    """Print a warning: something that the user should know, although nothing failed."""
    note(_("warning: {text}", text=plain(text)))


def echo_json(data: Mapping[str, Any]) -> None:
    """Print a command's single JSON document for ``--json``, with its schema version."""
    echo(json.dumps({"schema_version": SCHEMA_VERSION, **data}, indent=2))


def echo_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; see `table_lines`."""
    for line in table_lines(header, rows):
        echo(line)


def table_lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table with aligned columns; translate the header, and pass the cells through `plain`."""
    table = [tuple(map(_, header)), *(tuple(plain(cell) for cell in row) for row in rows)]
    widths = [max(width_of(row[column]) for row in table) for column in range(len(header))]
    for row in table:
        yield "  ".join(padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()


def report(error: TpuError, *, as_json: bool) -> None:
    """Print an error in up to three lines: what failed, the current state, and what to do next."""
    if as_json:
        echo_json({"error": error.to_json()})
        return
    note(_("error: {message}", message=plain(_(error.message))))
    if error.exists:
        note_now(_(error.exists))
    if error.hint:
        note_do(_(error.hint))


def full_text(error: TpuError) -> str:
    """Return the full text of an error, translated (`str` returns it in English)."""
    return "\n".join(_(part) for part in (error.message, error.exists, error.hint) if part)


def message_of(error: Mapping[str, Any]) -> str:
    """Return the translated message of an error that is given as JSON."""
    return _(error_from_json(dict(error)).message)


def note_now(text: str) -> None:
    """Print the current state, below an error."""
    note(_("  now: {text}", text=plain(text)))


def note_do(text: str) -> None:
    """Print what to do next, below an error."""
    note(_("   do: {text}", text=plain(text)))


def can_ask() -> bool:
    """Whether a user is at a terminal to answer questions."""
    return sys.stdin.isatty()


def is_confirmed(question: str) -> bool:
    """Ask a yes-or-no question at the terminal; without a terminal, return False."""
    # without --yes, a script has not agreed
    if not can_ask():
        return False
    print(f"{question}{QUESTION_END}", end="", file=sys.stderr, flush=True)  # noqa: T201 - a prompt has no line end
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class Progress:
    """The display of the current phase: a single updated line on a terminal, elsewhere a new line per change."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._shown = ""

    def show(self, text: str) -> None:
        """Show this text as the current phase, unless it is already shown."""
        line = plain(text)
        if line == self._shown:
            return
        self._shown = line
        self._write(f"\r\x1b[K{_cut(line)}" if self._is_terminal else f"{line}\n")

    def end(self) -> None:
        """Finish the last line, leaving it on the screen."""
        if self._is_terminal and self._shown:
            self._write("\n")
        self._shown = ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _cut(line: str) -> str:
    # a wrapped line can't be erased; leave the last column free, because some terminals wrap when it is filled
    width = shutil.get_terminal_size().columns - 1
    if width_of(line) <= width:
        return line
    while line and width_of(line) >= width:
        line = line[:-1]
    return line + "…"
