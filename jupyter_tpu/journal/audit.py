"""The append-only audit log of actions that affect money or access, with their reasons.

Every method may block on the disk.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jupyter_tpu.errors import JournalUnwritable, Text, templates_of, text_from_json
from jupyter_tpu.journal.journal import Journal
from jupyter_tpu.lifecycle.intents import Intent

_REASON = "reason"
"""The field in an entry's detail with the template and arguments of its reason; see `Text.to_json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the audit log.

    Attributes:
        at: when the action was performed (Unix seconds). All lines use this computer's clock, so that the user can
            compare them.
        action: a fixed identifier, such as ``stop``, ``delete``, ``keep``, ``budget``, ``grant`` or ``recreate``.
        subject: the target of the action, such as a node's full name or a budget's name.
        reason: why the action was performed, in one sentence for display; a `Text` if it contains values, which the
            journal stores separately.
        detail: more details, as JSON.
    """

    at: float
    action: str
    subject: str
    reason: str
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def error(self) -> str | None:
        """Return why the action failed, for display, or None if it is not known to have failed."""
        error = self.detail.get("error")
        return str(error.get("message") or "unknown") if isinstance(error, Mapping) else None

    @property
    def subjects(self) -> tuple[str, ...]:
        """The entry's subject. For the deletion of a queued resource, the nodes that were deleted with it follow."""
        nodes = self.detail.get("nodes")
        return (self.subject, *map(str, nodes)) if isinstance(nodes, list) else (self.subject,)

    def to_json(self) -> dict[str, Any]:
        """Return all fields for the REST API and the CLI."""
        return {
            "at": self.at,
            "action": self.action,
            "subject": self.subject,
            "reason": str(self.reason),
            **templates_of({"reason": self.reason}),
            "detail": dict(self.detail),
        }


class Audit:
    """The audit log of a project in a cloud."""

    def __init__(self, journal: Journal, *, endpoint: str, project: str) -> None:
        self._journal = journal
        self._place = (endpoint, project)

    def record(self, entry: Entry) -> None:
        """Add a line to the audit log.

        Raises:
            JournalUnwritable: the line was not written.
        """
        with self._journal.writing() as database:
            self.insert(database, entry)

    def record_later(self, entry: Entry) -> None:
        """Add a line as soon as the journal is writable again; see `Journal.write_later`."""
        key = (*self._place, entry.action, entry.subject, entry.reason)
        self._journal.write_later(key, lambda database: self.insert(database, entry))

    def record_once(self, entry: Entry) -> bool:
        """Add a line unless a line with the same action, subject and detail exists; return whether it was added.

        If several processes call this at the same time, only one adds the line. Raises the same errors as `record`.
        """
        # use one transaction, so that no other process adds the same line between the two statements
        with self._journal.writing() as database:
            rows = database.execute(
                "SELECT reason, detail FROM audit WHERE endpoint = ? AND project = ? AND action = ? AND subject = ?",
                (*self._place, entry.action, entry.subject),
            ).fetchall()
            # convert the detail as if it were read from the file, because JSON has no tuples
            wanted = json.loads(json.dumps(dict(entry.detail)))
            is_new = all(_read(*row)[1] != wanted for row in rows)
            if is_new:
                self.insert(database, entry)
        return is_new

    def record_user_request(self, intent: Intent) -> None:
        """Add a line for a node that the user creates, starts, stops or deletes; if the disk is full, add it later."""
        kind = intent.spec.accelerator_type if intent.spec else ""
        reason = Text("The user requested a {type}.", type=kind) if kind else Text("The user requested this action.")
        entry = Entry(
            at=intent.created_at,
            action=intent.verb,
            subject=str(intent.node_name),
            reason=reason,
            detail={"intent_id": intent.intent_id},
        )
        try:
            self.record_once(entry)  # a repeated request has the same intent
        except JournalUnwritable:
            self.record_later(entry)

    def insert(self, database: sqlite3.Connection, entry: Entry) -> None:
        """Add a line within an open transaction of the same journal."""
        # store the reason next to the detail, where earlier versions ignore it
        made_of = {_REASON: entry.reason.to_json()} if isinstance(entry.reason, Text) else {}
        detail = json.dumps({**entry.detail, **made_of})
        database.execute(
            "INSERT INTO audit (endpoint, project, at, action, subject, reason, detail) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*self._place, entry.at, entry.action, entry.subject, str(entry.reason), detail),
        )

    def newest(self, limit: int = 100) -> tuple[Entry, ...]:
        """Return the newest lines, newest first."""
        with self._journal.reading() as database:
            rows = database.execute(
                "SELECT at, action, subject, reason, detail FROM audit WHERE endpoint = ? AND project = ?"
                " ORDER BY seq DESC LIMIT ?",  # not by time: the clock may have been set back
                (*self._place, limit),
            ).fetchall()
        read = ((row[:3], *_read(*row[3:])) for row in rows)
        return tuple(
            Entry(at=at, action=action, subject=subject, reason=reason, detail=detail)
            for (at, action, subject), reason, detail in read
        )


def _read(reason: str, detail: str) -> tuple[str, dict[str, Any]]:
    """Return the reason and the detail. The reason is a `Text` if it was stored as a `Text`."""
    found = _detail(detail)
    return text_from_json(found.pop(_REASON, None), reason), found


def _detail(text: str) -> dict[str, Any]:
    """Return the detail, or a placeholder if it is damaged, because the log line must still be shown."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"damaged": text[:500]}  # enough of the text to identify the entry
