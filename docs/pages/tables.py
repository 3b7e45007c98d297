"""Markdown that several pages need."""

from __future__ import annotations

from collections.abc import Iterable


def table_of(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [table_line(header), table_line(("---",) * len(header)), *map(table_line, rows)]
    return "\n".join(lines)


def table_line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def sentence(text: str) -> str:
    """Return the text with a capital and a full stop."""
    return text[:1].upper() + text[1:].rstrip(".") + "." if text else ""


def page(*sections: str) -> str:
    return "\n\n".join(sections) + "\n"
