"""Store auto-recovery settings, and look up the intents and costs of their nodes. Every method may block on the disk.

A setting is updated only if it hasn't changed since it was read. If two processes update it at the same time, one
succeeds and the other reads the setting again. The audit log entry is written in the same transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from jupyter_tpu.errors import JournalUnwritable, Text
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.journal.grant_store import Grants
from jupyter_tpu.journal.journal import Journal, intents_of
from jupyter_tpu.journal.ledger import Ledger
from jupyter_tpu.journal.owner import is_gone
from jupyter_tpu.journal.user_documents import Documents
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.lifecycle.recovery_state import Recovery
from jupyter_tpu.models import NodeName
from jupyter_tpu.money.grants_applied import as_billed
from jupyter_tpu.money.spans import Window, cost

KIND = "recovery"
# phase → action of the audit log
_ACTIONS = {
    "clearing": "preempted",
    "waiting": "recover-wait",
    "making": "recreate",
    "watching": "recreated",
    "given_up": "recover-give-up",
    "off": "recover-off",
}


class Recoveries:
    """The auto-recovery settings of a project in a cloud."""

    def __init__(self, journal: Journal, *, endpoint: str, project: str) -> None:
        self._journal = journal
        self._place = (endpoint, project)
        self._documents = Documents(journal, endpoint=endpoint, project=project)
        self._audit = Audit(journal, endpoint=endpoint, project=project)
        self._ledger = Ledger(journal, endpoint=endpoint, project=project)
        self._grants = Grants(journal, endpoint=endpoint, project=project)

    def all(self) -> tuple[Recovery, ...]:
        """Return all settings, by node.

        Raises:
            JournalUnwritable: a setting cannot be read.
        """
        return tuple(_read(each.name, each.body) for each in self._documents.all(KIND))

    def each(self) -> tuple[Recovery | tuple[str, JournalUnwritable], ...]:
        """Return all settings. For an unreadable setting, return its node's name and the reason instead.

        Raises:
            JournalUnwritable: the journal cannot be read.
        """
        return tuple(
            each if isinstance(each, tuple) else _read_or_error(each.name, each.body)
            for each in self._documents.each(KIND)
        )

    def get(self, name: NodeName) -> Recovery | None:
        """Return a node's auto-recovery setting, or None if it has none. Raises the same errors as `all`."""
        found = self._documents.get(KIND, str(name))
        return _read(found.name, found.body) if found else None

    def put(self, recovery: Recovery, entry: Entry) -> None:
        """Save the user's choice, replacing any earlier setting.

        Raises:
            JournalUnwritable: nothing has changed.
        """
        with self._journal.writing() as database:
            database.execute(
                "INSERT OR REPLACE INTO documents (endpoint, project, kind, name, body, updated_at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (*self._place, KIND, str(recovery.name), _text(recovery), entry.at),
            )
            self._audit.insert(database, entry)

    def swap(self, old: Recovery, new: Recovery, entries: Iterable[Entry] = (), *, now: float) -> bool:
        """Replace `old` with `new` if `old` is still stored; return whether it was replaced.

        Raises:
            JournalUnwritable: nothing has changed.
        """
        named = "endpoint = ? AND project = ? AND kind = ? AND name = ?"
        name = (*self._place, KIND, str(old.name))
        with self._journal.writing() as database:
            row = database.execute(f"SELECT body FROM documents WHERE {named}", name).fetchone()
            if row is None or not _is_same(row[0], old):
                return False
            database.execute(f"UPDATE documents SET body = ?, updated_at = ? WHERE {named}", (_text(new), now, *name))
            for entry in entries:
                self._audit.insert(database, entry)
            return True

    def claim(self, recovery: Recovery, *, now: float) -> Recovery | None:
        """Claim the auto-recovery setting; return None if it has changed or another running process owns it."""
        # this process may reclaim a setting that it owned before
        if recovery.owner and recovery.owner != self._journal.owner and not is_gone(recovery.owner):
            return None
        claimed = replace(recovery, owner=self._journal.owner)
        return claimed if self.swap(recovery, claimed, now=now) else None

    def intents(self, recovery: Recovery) -> tuple[Intent, ...]:
        """Return the node's open and settled intents since auto-recovery was turned on, newest first."""
        with self._journal.reading() as database:
            rows = database.execute(
                "SELECT body, owner FROM intents WHERE endpoint = ? AND node_name = ? AND created_at >= ?"
                " ORDER BY created_at DESC, intent_id",
                (self._place[0], str(recovery.name), recovery.chosen_at),
            ).fetchall()
        return tuple(intents_of(rows))

    def spent_usd(self, name: NodeName, since: float) -> float | None:
        """Return the cost of all nodes with that name since a time by the cloud's clock, or None if unknown.

        Time covered by a TRC grant is free.
        """
        try:
            # treat all spans as closed: the end of an open span is its last observation, and later data is unknown
            spans = [replace(span, is_open=False) for span in self._ledger.spans()]
        except JournalUnwritable:
            return None
        now = max((span.ended_at for span in spans), default=0.0)
        billed = as_billed(self._grants.read().grants, spans, now)
        own = (span for span in billed if span.name == name)
        return cost(own, Window(starts_at=since), now).usd


def entry_of(recovery: Recovery, now: float) -> Entry:
    """Return the audit log entry for the phase that a recovery has entered; `now` is in Unix seconds."""
    counts = {"attempts": recovery.attempt_number, "max_attempts": recovery.max_attempts, "max_usd": recovery.max_usd}
    return Entry(
        at=now, action=_ACTIONS[recovery.phase], subject=str(recovery.name), reason=recovery.message, detail=counts
    )


def _text(recovery: Recovery) -> str:
    return json.dumps(recovery.to_json())


def _is_same(text: str, recovery: Recovery) -> bool:
    """Return whether the stored JSON describes this setting. JSON from earlier versions lacks newer fields."""
    try:
        return Recovery.from_json(json.loads(text)).to_json() == recovery.to_json()
    except (KeyError, TypeError, ValueError, RecursionError):  # the setting was damaged after it was read
        return False


def _read_or_error(name: str, body: object) -> Recovery | tuple[str, JournalUnwritable]:
    try:
        return _read(name, body)
    except JournalUnwritable as error:
        return name, error


def _read(name: str, body: object) -> Recovery:
    try:
        if isinstance(body, dict):
            return Recovery.from_json(body)
    except (KeyError, TypeError, ValueError):
        pass
    raise JournalUnwritable(
        Text("The auto-recovery setting of {node} in the journal is damaged.", node=repr(name[:100])),
        exists="The node is unchanged.",
        hint="Turn auto-recovery for this node on or off again.",
        raw=str(body)[:500],
    )
