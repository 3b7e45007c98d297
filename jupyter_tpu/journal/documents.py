"""What the user has set, by kind and name: budgets, grants, auto-stop rules, recovery.

Shared by server and CLI, for one project of one cloud. Every method may block on the disk.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.errors import JournalUnwritable
from jupyter_tpu.journal.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One of them.

    Attributes:
        body: a JSON object; its kind says what it holds.
        updated_at: Unix seconds.
    """

    name: str
    body: Mapping[str, Any]
    updated_at: float


class Documents:
    """The documents of a project in a cloud, see `CloudSettings`."""

    def __init__(self, journal: Journal, *, endpoint: str, project: str) -> None:
        self._journal = journal
        self._place = (endpoint, project)

    def put(self, kind: str, name: str, body: Mapping[str, Any], *, now: float) -> None:
        """Write one down, in place of what had this name.

        Raises:
            JournalUnwritable: it is as it was.
        """
        with self._journal.writing() as database:
            database.execute(
                "INSERT OR REPLACE INTO documents (endpoint, project, kind, name, body, updated_at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (*self._place, kind, name, json.dumps(body), now),
            )

    def get(self, kind: str, name: str) -> Document | None:
        """One by its name.

        Raises:
            JournalUnwritable: the journal, or this document in it, cannot be read.
        """
        return next((each for each in self.all(kind) if each.name == name), None)

    def all(self, kind: str) -> tuple[Document, ...]:
        """All of a kind, by name; raises as `get` does: one that cannot be read is never left out silently."""
        return tuple(_read(kind, row) for row in self._rows(kind))

    def each(self, kind: str) -> tuple[Document | tuple[str, JournalUnwritable], ...]:
        """All of a kind; one that cannot be read is given as its name and the reason, so the others still can be.

        Raises:
            JournalUnwritable: the journal cannot be read.
        """
        return tuple(_read_or_error(kind, row) for row in self._rows(kind))

    def _rows(self, kind: str) -> list[tuple[str, str, float]]:
        with self._journal.reading() as database:
            return database.execute(
                "SELECT name, body, updated_at FROM documents WHERE endpoint = ? AND project = ? AND kind = ?"
                " ORDER BY name",
                (*self._place, kind),
            ).fetchall()

    def remove(self, kind: str, name: str) -> bool:
        """Take one away; whether there was one."""
        with self._journal.writing() as database:
            removed: sqlite3.Cursor = database.execute(
                "DELETE FROM documents WHERE endpoint = ? AND project = ? AND kind = ? AND name = ?",
                (*self._place, kind, name),
            )
            return removed.rowcount > 0


def _read(kind: str, row: tuple[str, str, float]) -> Document:
    name, text, updated_at = row
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise JournalUnwritable(
            f"The {kind} {name[:100]!r} in the journal is damaged.",
            exists="Nothing was asked of the cloud.",
            hint=f"Set it again, or remove it, with `jupyter tpu {kind}`.",
            raw=text[:500],
        )
    return Document(name=name, body=body, updated_at=updated_at)


def _read_or_error(kind: str, row: tuple[str, str, float]) -> Document | tuple[str, JournalUnwritable]:
    try:
        return _read(kind, row)
    except JournalUnwritable as error:
        return row[0], error
