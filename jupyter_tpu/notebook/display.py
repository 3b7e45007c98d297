"""The output of a magic: titles, lines and tables, as text and as HTML.

Every value may come from a process, a file or another machine. So control characters are removed from the text, and
everything is escaped in the HTML.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import plain as plain

UNKNOWN = "unknown"

_LEFT = ' style="text-align: left"'


def as_html(text: str) -> str:
    """Escape text for HTML, and its dollar signs for front ends that render ``$…$`` as mathematics."""
    return html.escape(text).replace("$", "<span>$</span>")


def age_text(at: float, now: float) -> str:
    """Return ``as of 40 s ago``; both arguments in Unix seconds."""
    return f"as of {duration_text(now - at)} ago"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of a magic's output.

    Attributes:
        age: how old its data is, such as ``as of 40 s ago``.
        lines: shown above the table; `header` and `rows` are the table.
        verbatim: lines of a file or for programs; only these are never shortened.
    """

    title: str = ""
    age: str = ""
    lines: Sequence[str] = ()
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    verbatim: Sequence[str] = ()

    def to_text(self) -> Iterator[str]:
        """Yield the lines of its plain-text form."""
        indent = ""
        if self.title:
            yield f"{plain(self.title)} ({plain(self.age)})" if self.age else plain(self.title)
            indent = "  "
        yield from (indent + plain(line) for line in self.lines)
        yield from (indent + line for line in self._table())
        yield from (plain(line, len(line)) for line in self.verbatim)

    def _table(self) -> Iterator[str]:
        if not self.rows:
            return
        table = [[plain(cell) for cell in row] for row in (self.header, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()

    def to_html(self) -> Iterator[str]:
        """Yield the elements of its HTML form."""
        age = f" <small>{_escaped(self.age)}</small>" if self.age else ""
        title = [f"<strong>{_escaped(self.title)}</strong>{age}"] if self.title else []
        if title or self.lines:
            yield "<p>" + "<br>".join([*title, *map(_escaped, self.lines)]) + "</p>"
        if self.rows:
            header = "".join(f'<th scope="col"{_LEFT}>{_escaped(cell)}</th>' for cell in self.header)
            yield f"<table><thead><tr>{header}</tr></thead><tbody>{''.join(map(_html_row, self.rows))}</tbody></table>"
        if self.verbatim:
            yield "<pre>" + "\n".join(html.escape(plain(line, len(line))) for line in self.verbatim) + "</pre>"


@dataclass(frozen=True, slots=True, kw_only=True)
class MagicOutput:
    """The whole output of a magic."""

    sections: Sequence[Section]

    def __str__(self) -> str:
        return "\n\n".join("\n".join(section.to_text()) for section in self.sections)

    def to_html(self) -> str:
        """Return the output as HTML, with every value escaped."""
        return "".join(part for section in self.sections for part in section.to_html())

    def to_mimebundle(self) -> dict[str, str]:
        """Return both forms by media type, for the front end to choose from."""
        return {"text/plain": str(self), "text/html": self.to_html()}


def text_output(*lines: str) -> MagicOutput:
    """Return an output of a few lines of text."""
    return MagicOutput(sections=[Section(lines=lines)])


def _html_row(cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<td{_LEFT}>{_escaped(cell)}</td>" for cell in cells) + "</tr>"


def _escaped(text: object) -> str:
    return as_html(plain(text))
