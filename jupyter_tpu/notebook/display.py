"""The output of a magic: titles, lines and tables, as text and as HTML.

Any value may come from a process, a file or another machine, so control characters are removed from the text, and
everything is escaped in the HTML. Each `Text` is shown in the user's language, any other value unchanged.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import Text, TpuError
from jupyter_tpu.errors import plain as plain
from jupyter_tpu.i18n import padded, shown, width_of
from jupyter_tpu.sample_table import UNKNOWN as UNKNOWN

# such as "8", "-1", "12.5 %", "16.0 GiB" or "≈ $3.20", but not a version such as "0.10.2"
_NUMBER = re.compile(r"([≈~<≤≥] ?)?[-−]?\$?\d[\d,]*(\.\d+)?( ?(%|[KMGT]iB|m?s))?")
_CODE = re.compile(r"`([^`]+)`")  # code in our texts, as in Markdown
_WORD = re.compile(r"[^\d\s]*")  # in place of a number: "unknown", "unlimited" or nothing


def as_html(text: str) -> str:
    """Escape text for HTML, including dollar signs for front ends that render ``$…$`` as mathematics."""
    return html.escape(text).replace("$", "<span>$</span>")


def age_text(at: float, now: float) -> str:
    """Return ``updated 40 s ago``; both arguments are in Unix seconds."""
    return Text("updated {duration} ago", duration=duration_text(now - at))


def plainly(text: str) -> str:
    """Return a text for display: in the user's language, without control characters."""
    return plain(shown(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of a magic's output.

    Attributes:
        age: how old its data is, such as ``updated 40 s ago``.
        lines: shown above the table; `header` and `rows` are the table.
        verbatim: lines from a file, or lines for programs; only these lines are never shortened.
    """

    title: str = ""
    age: str = ""
    lines: Sequence[str] = ()
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    verbatim: Sequence[str] = ()

    def to_text(self) -> Iterator[str]:
        """Yield the lines of the plain-text form."""
        indent = ""
        if self.title:
            yield f"{plainly(self.title)} ({plainly(self.age)})" if self.age else plainly(self.title)
            indent = "  "
        yield from (indent + plainly(line) for line in self.lines)
        yield from (indent + line for line in self._table())
        yield from (plain(line, len(line)) for line in self.verbatim)

    def _table(self) -> Iterator[str]:
        if not self.rows:
            return
        table = [[plainly(cell) for cell in row] for row in (self.header, *self.rows)]
        widths = [max(map(width_of, column)) for column in zip(*table, strict=True)]
        for row in table:
            yield "  ".join(padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()

    def to_html(self) -> Iterator[str]:
        """Yield the elements of the HTML form."""
        age = f" <small>{_escaped(self.age)}</small>" if self.age else ""
        title = [f"<strong>{_escaped(self.title)}</strong>{age}"] if self.title else []
        if title or self.lines:
            yield "<p>" + "<br>".join([*title, *map(_escaped, self.lines)]) + "</p>"
        if self.rows:
            yield html_table(self.header, self.rows)
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
        """Return the plain-text and HTML forms by media type; the front end chooses one."""
        return {"text/plain": str(self), "text/html": self.to_html()}


def message_of(error: TpuError) -> Text:
    """Return an error's message in a form that can be inserted into another text."""
    return error.message if isinstance(error.message, Text) else Text(error.message)


def unknown_because(error: TpuError) -> Text:
    """Return the text for an unknown value, with the reason."""
    return Text("unknown: {reason}", reason=message_of(error))


def text_output(*lines: str) -> MagicOutput:
    """Return an output with a few lines of text."""
    return MagicOutput(sections=[Section(lines=lines)])


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as HTML: columns of numbers are aligned right, all others left.

    Front ends have other defaults; JupyterLab, for example, aligns every cell right.
    """
    sides = [
        "right" if _is_numeric([plainly(cell) for cell in column]) else "left" for column in zip(*rows, strict=True)
    ]
    body = "".join(_html_row("td", row, sides) for row in rows)
    return f"<table><thead>{_html_row('th', header, sides)}</thead><tbody>{body}</tbody></table>"


def _is_numeric(cells: Sequence[str]) -> bool:
    numbers = [cell for cell in cells if _NUMBER.fullmatch(cell)]
    return bool(numbers) and all(_WORD.fullmatch(cell) for cell in cells if cell not in numbers)


def _html_row(tag: str, cells: Sequence[str], sides: Sequence[str]) -> str:
    scope = ' scope="col"' if tag == "th" else ""
    aligned = zip(cells, sides, strict=True)
    parts = (f'<{tag}{scope} style="text-align: {side}">{_escaped(cell)}</{tag}>' for cell, side in aligned)
    return "<tr>" + "".join(parts) + "</tr>"


def _escaped(text: str) -> str:
    """Escape a text for HTML; commands between back-ticks in our own texts are shown as code."""
    escaped = as_html(plainly(text))
    return _CODE.sub(r"<code>\1</code>", escaped) if isinstance(text, Text) else escaped
