"""Store intents. Each intent is written before its request is sent, so every billable resource is tracked.

The server and the CLI share the file. Each intent has one owner, the process that performs it, and only the owner may
change it. When the owner exits, the first process to notice claims the intent. Every method may block on the disk, so
don't call them in the event loop's thread.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
import threading
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from jupyter_tpu.errors import JournalUnwritable, TpuError, WrongState
from jupyter_tpu.journal import database_file
from jupyter_tpu.journal.owner import is_gone, new_owner
from jupyter_tpu.journal.paths import data_path, journal_dir
from jupyter_tpu.journal.unwritten import UNWRITTEN, Write
from jupyter_tpu.lifecycle.conflicts import intents_to_show, may_appear, settle_conflict
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.models import NodeName

log = logging.getLogger(__name__)

FILE_NAME = "journal.db"

# number of recent creations to read: enough for a median per type, but few enough to read within milliseconds
_CREATIONS = 200


class ClaimLost(Exception):
    """This process no longer owns the intent or search; another process has claimed it."""


class Journal:
    """The journal of one user; create it with `Journal.open` or `Journal.of_user`.

    Attributes:
        notices: messages for the user about problems while opening the file.
    """

    def __init__(
        self, path: Path, database: sqlite3.Connection | None, *, problem: TpuError | None = None, notice: str = ""
    ) -> None:
        self._path = path
        self._database = database
        # the file that this connection has open, see `_current`
        self._file = database_file.identity_of(path)
        self._problem = problem
        self._lock = threading.Lock()
        self._unwritten = UNWRITTEN[path]
        self.owner = new_owner()
        self.notices = tuple(filter(None, (notice, problem.message if problem else "")))

    @classmethod
    def open(cls, folder: Path) -> Journal:
        """Open the journal in a folder.

        Never raises, because nodes can be listed and deleted even without a journal.
        """
        path = folder / FILE_NAME
        try:
            database, notice = _opened(path)
        except database_file.Damaged as error:
            return cls(path, None, problem=database_file.unwritable(path, error))
        except JournalUnwritable as problem:
            return cls(path, None, problem=problem)
        return cls(path, database, notice=notice)

    @classmethod
    def of_user(cls, endpoint: str = "") -> Journal:
        """Open the user's journal for the cloud at `endpoint`.

        Never raises: the user must be able to delete nodes even if the journal can't be opened.
        """
        try:
            return cls.open(journal_dir(endpoint))
        except JournalUnwritable as problem:
            return cls(data_path() / FILE_NAME, None, problem=problem)

    def close(self) -> None:
        """Close the file; further calls raise `JournalUnwritable`."""
        with self._lock:
            if self._database is not None:
                self._database.close()
            self._database = None

    def begin(self, wanted: Intent) -> Intent:
        """Write a new intent owned by this process, or return the equivalent open intent.

        Raises:
            NodeExists, WrongState: the intent conflicts with an open intent; see `settle_conflict`.
            JournalUnwritable: the intent was not written, so it must not be performed.
        """
        # use one transaction: between the check and the insertion, no other process may start the same intent
        with self.writing() as database:
            known = _open_intents(database)
            chosen = settle_conflict(known, wanted)
            if chosen is wanted:
                chosen = replace(wanted, owner=self.owner, may_appear=may_appear(known, wanted))
                _insert(database, chosen)
            return chosen

    def save(self, intent: Intent) -> None:
        """Write the progress of an intent that this process owns.

        Raises:
            ClaimLost: this process no longer owns the intent and must stop performing it.
            JournalUnwritable: nothing was written.
        """
        with self.writing() as database:
            if not _update(database, intent, self.owner):
                raise ClaimLost(intent.intent_id)

    def save_later(self, intent: Intent) -> None:
        """Queue a finished intent that was performed while the journal was not writable; see `write_later`."""
        key = (intent.endpoint, intent.node_name, intent.verb)
        self._unwritten.add(key, lambda database: _insert(database, intent), intent=intent)

    def write_later(self, key: Hashable, write: Write) -> None:
        """Queue a write for the next successful transaction of this process."""
        self._unwritten.add(key, write)

    def write_unwritten(self) -> bool:
        """Try to write the queued writes; return whether the queue is empty."""
        if not self._unwritten.is_empty:
            with contextlib.suppress(JournalUnwritable), self.writing():
                pass
        return self._unwritten.is_empty

    def claim(self, intent_id: str) -> Intent | None:
        """Take over an open intent if its owner has exited. Return the intent, or None if it was not taken over."""
        # check before the transaction: querying the operating system must not hold the write lock
        intent = self.find(intent_id)
        if intent is None or intent.settled or not is_gone(intent.owner):
            return None
        with self.writing() as database:
            # take over only from the owner that has exited, because another process may have been faster
            _change_owner(database, intent_id, intent.owner, self.owner)
            taken = _find(database, intent_id)
        return taken if taken and taken.owner == self.owner and not taken.settled else None

    def release(self, intent_id: str) -> None:
        """Give up an open intent, so that another process can claim it immediately."""
        with self.writing() as database:
            _change_owner(database, intent_id, self.owner, "")

    def dismiss(self, intent_id: str) -> None:
        """Hide a finished intent from the lists.

        Raises:
            WrongState: the intent is still open.
        """
        with self.writing() as database:
            intent = _find(database, intent_id)
            if intent is not None and not intent.settled:
                raise WrongState(
                    "A request in progress can't be dismissed.", hint="Wait until the request is finished."
                )
            database.execute("UPDATE intents SET dismissed = 1 WHERE intent_id = ?", (intent_id,))

    def find(self, intent_id: str) -> Intent | None:
        """Return the open or settled intent with this id, or None if it doesn't exist."""
        with self.reading() as database:
            return _find(database, intent_id)

    def listed(self, failed_since: float, *, endpoint: str, project: str) -> tuple[Intent, ...]:
        """Return a project's open intents and its recent failed intents that were not dismissed, oldest first.

        A failed intent is omitted once a later intent for its node exists. A failed intent is recent if it was last
        updated at `failed_since` (Unix seconds) or later. Intents of clouds with a different `endpoint` are omitted,
        because their nodes may have the same names.
        """
        with self.reading() as database:
            rows = database.execute(
                "SELECT body, owner FROM intents"
                " WHERE endpoint = ? AND (settled = 0 OR (dismissed = 0 AND updated_at >= ?))"
                " ORDER BY created_at, intent_id",
                (endpoint, failed_since),
            ).fetchall()
        # filter here, because the project is part of the node's name and not a column
        ours = (each for each in intents_of(rows) if each.node_name.project == project)
        return tuple(intents_to_show(ours))

    def intents_about(self, name: NodeName, *, endpoint: str, since: float) -> tuple[Intent, ...]:
        """Return the open and settled intents for a node that were updated since a time (Unix seconds), newest first.

        Intents that are not written yet come first; see `save_later`.
        """
        unwritten = (
            each
            for each in self._unwritten.intents
            if (each.node_name, each.endpoint) == (name, endpoint) and each.updated_at >= since
        )
        with self.reading() as database:
            rows = database.execute(
                "SELECT body, owner FROM intents WHERE endpoint = ? AND node_name = ? AND updated_at >= ?"
                " ORDER BY created_at DESC, intent_id",
                (endpoint, str(name), since),
            ).fetchall()
        return (*unwritten, *intents_of(rows))

    def creations(self, since: float, *, endpoint: str, project: str) -> tuple[Intent, ...]:
        """Return a project's successful and failed creations that were updated since a time (Unix seconds)."""
        with self.reading() as database:
            rows = database.execute(
                "SELECT body, owner FROM intents"
                " WHERE endpoint = ? AND verb = 'create' AND settled = 1 AND updated_at >= ?",
                (endpoint, since),
            ).fetchall()
        return tuple(each for each in intents_of(rows) if each.node_name.project == project)

    def creation_seconds(self, *, endpoint: str) -> dict[tuple[str, str], float]:
        """Return the median time from the creation request to READY, in seconds, by accelerator type and zone."""
        with self.reading() as database:
            rows = database.execute(
                "SELECT body, owner FROM intents WHERE endpoint = ? AND verb = 'create' AND settled = 1"
                " ORDER BY created_at DESC LIMIT ?",
                (endpoint, _CREATIONS),
            ).fetchall()
        from statistics import median  # slow to import, and not needed at a server's start

        taken: dict[tuple[str, str], list[float]] = {}
        for intent in intents_of(rows):
            if intent.succeeded and intent.spec is not None:
                key = (intent.spec.accelerator_type, intent.node_name.zone)
                taken.setdefault(key, []).append(intent.updated_at - intent.created_at)
        return {key: median(seconds) for key, seconds in taken.items()}

    def history(self, intent_id: str) -> tuple[dict[str, Any], ...]:
        """Return the events of an intent, oldest first."""
        with self.reading() as database:
            rows = database.execute(
                "SELECT at, phase, message, error_code FROM events WHERE intent_id = ? ORDER BY seq", (intent_id,)
            ).fetchall()
        return tuple({"at": row[0], "phase": row[1], "message": row[2], "error_code": row[3]} for row in rows)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the database for reading; only one thread at a time can use it.

        Raises:
            JournalUnwritable: the journal cannot be read.
        """
        with self._lock:
            if self._database is None:
                raise self._problem or database_file.unwritable(self._path, sqlite3.ProgrammingError("it is closed"))
            try:
                yield self._current(self._database)
            except database_file.Damaged as error:
                raise database_file.unwritable(self._path, error) from error
            except sqlite3.Error as error:
                raise database_file.unwritable(self._path, error) from error

    def _current(self, database: sqlite3.Connection) -> sqlite3.Connection:
        """Return the database. Reopen it if another process has replaced the damaged file with a repaired file."""
        found = database_file.identity_of(self._path)
        if found is None or found == self._file:
            return database
        self._database, _ = _opened(self._path)
        self._file = found
        database.close()
        return self._database

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Run one transaction: on exit, either all or none of its changes are on disk.

        Raises:
            JournalUnwritable: nothing was written.
        """
        with self.reading() as database:
            # IMMEDIATE: data read in the transaction must still be valid at the commit
            database.execute("BEGIN IMMEDIATE")
            taken = self._unwritten.take()
            try:
                for write in taken.values():
                    write(database)
                yield database
                database.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # SQLite may already have rolled back
                    database.execute("ROLLBACK")
                self._unwritten.put_back(taken)
                raise
            self._unwritten.forget(taken)


def _opened(path: Path) -> tuple[sqlite3.Connection, str]:
    """Open the file, after repairing it if it is damaged. Return the database and a notice, which may be empty.

    Raises the same errors as `open_repaired`.
    """
    try:
        return database_file.open_database(path), ""
    except database_file.Damaged:
        return database_file.open_repaired(path)


def _open_intents(database: sqlite3.Connection) -> list[Intent]:
    rows = database.execute("SELECT body, owner FROM intents WHERE settled = 0").fetchall()
    return list(intents_of(rows))


def _find(database: sqlite3.Connection, intent_id: str) -> Intent | None:
    row = database.execute("SELECT body, owner FROM intents WHERE intent_id = ?", (intent_id,)).fetchone()
    return _read(row) if row else None


def intents_of(rows: Iterable[tuple[str, str]]) -> Iterator[Intent]:
    """Yield the intents from (body, owner) rows. Skip damaged rows, so that the other intents can be carried out."""
    for row in rows:
        try:
            yield _read(row)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, TpuError):
            log.exception("Left out a damaged intent in the journal: %s", row[0][:200])


def _read(row: tuple[str, str]) -> Intent:
    # the owner comes from its column, because a claim changes only that, not the body
    return replace(Intent.from_json(json.loads(row[0])), owner=row[1])


def _insert(database: sqlite3.Connection, intent: Intent) -> None:
    database.execute(
        "INSERT INTO intents (intent_id, endpoint, node_name, verb, settled, owner, created_at, updated_at, body)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            intent.intent_id,
            intent.endpoint,
            str(intent.node_name),
            intent.verb,
            intent.settled,
            intent.owner,
            intent.created_at,
            intent.updated_at,
            json.dumps(intent.to_json()),
        ),
    )
    _record(database, intent)


def _update(database: sqlite3.Connection, intent: Intent, owner: str) -> bool:
    found = database.execute(
        "UPDATE intents SET settled = ?, owner = ?, updated_at = ?, body = ? WHERE intent_id = ? AND owner = ?",
        (intent.settled, intent.owner, intent.updated_at, json.dumps(intent.to_json()), intent.intent_id, owner),
    )
    if found.rowcount:
        _record(database, intent)
    return bool(found.rowcount)


def _change_owner(database: sqlite3.Connection, intent_id: str, old_owner: str, new_owner: str) -> None:
    database.execute(
        "UPDATE intents SET owner = ? WHERE intent_id = ? AND owner = ? AND settled = 0",
        (new_owner, intent_id, old_owner),
    )


def _record(database: sqlite3.Connection, intent: Intent) -> None:
    database.execute(
        "INSERT INTO events (intent_id, at, phase, message, error_code) VALUES (?, ?, ?, ?, ?)",
        (intent.intent_id, intent.updated_at, intent.phase, intent.message, intent.error.code if intent.error else ""),
    )
