"""Store user settings by kind and name: budgets, grants, auto-stop rules and auto-recovery.

The settings belong to one project of one cloud. The server and the CLI share them. Every method may block on the disk.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.error_actions import show_budgets, show_grants
from jupyter_tpu.errors import Action, JournalUnwritable, Text
from jupyter_tpu.journal.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One stored document, such as a budget or a grant.

    Attributes:
        body: a JSON object; its contents depend on the kind.
        updated_at: when the document was last changed (Unix seconds).
    """

    name: str
    body: Mapping[str, Any]
    updated_at: float


class Documents:
    """The user's stored settings for one project of one cloud, such as budgets and grants."""

    def __init__(self, journal: Journal, *, endpoint: str, project: str) -> None:
        self._journal = journal
        self._place = (endpoint, project)

    def put(self, kind: str, name: str, body: Mapping[str, Any], *, now: float) -> None:
        """Write a document, replacing any document with the same name.

        Raises:
            JournalUnwritable: nothing has changed.
        """
        with self._journal.writing() as database:
            database.execute(
                "INSERT OR REPLACE INTO documents (endpoint, project, kind, name, body, updated_at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (*self._place, kind, name, json.dumps(body), now),
            )

    def get(self, kind: str, name: str) -> Document | None:
        """Return the document with this name, or None if it doesn't exist.

        Raises:
            JournalUnwritable: the journal or the document cannot be read.
        """
        return next((_read(kind, row) for row in self._rows(kind) if row[0] == name), None)

    def all(self, kind: str) -> tuple[Document, ...]:
        """Return all documents of a kind, by name.

        Raises the same errors as `get` if a document is unreadable, because the result must be complete.
        """
        return tuple(_read(kind, row) for row in self._rows(kind))

    def each(self, kind: str) -> tuple[Document | tuple[str, JournalUnwritable], ...]:
        """Return all documents of a kind. For an unreadable document, return its name and the reason instead.

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
        """Remove a document; return whether it existed. Raises `JournalUnwritable`."""
        with self._journal.writing() as database:
            removed: sqlite3.Cursor = database.execute(
                "DELETE FROM documents WHERE endpoint = ? AND project = ? AND kind = ? AND name = ?",
                (*self._place, kind, name),
            )
            return removed.rowcount > 0


_ACTIONS: Mapping[str, tuple[Action, ...]] = {"budget": (show_budgets(),), "grant": (show_grants(),)}
"""The actions that a front end can offer for a damaged document, by kind; other kinds have their own errors."""


def _read(kind: str, row: tuple[str, str, float]) -> Document:
    name, text, updated_at = row
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    # raise instead of ignoring the document: a skipped budget would allow spending
    if not isinstance(body, dict):
        raise JournalUnwritable(
            Text("The {kind} {name} in the journal is damaged.", kind=kind, name=repr(name[:100])),
            exists="No request was sent to the cloud.",
            hint=Text("Set the {kind} again, or remove it, with `jupyter tpu {kind}`.", kind=kind),
            raw=text[:500],
            actions=_ACTIONS.get(kind, ()),
        )
    return Document(name=name, body=body, updated_at=updated_at)


def _read_or_error(kind: str, row: tuple[str, str, float]) -> Document | tuple[str, JournalUnwritable]:
    try:
        return _read(kind, row)
    except JournalUnwritable as error:
        return row[0], error
