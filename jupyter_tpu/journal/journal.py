"""Intents on disk: written down before anything is asked of the cloud, shared by server and CLI.

An intent is performed by one process, its owner. Only the owner may change it; when the owner is gone, whoever comes
first takes the intent over. Every method may block on the disk: call them off the event loop.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from jupyter_tpu.errors import JournalUnwritable, TpuError, WrongState
from jupyter_tpu.journal import opening
from jupyter_tpu.journal.owner import is_gone, new_owner
from jupyter_tpu.journal.paths import data_dir, data_path
from jupyter_tpu.lifecycle.conflicts import may_appear, settle_conflict
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.models import NodeName

log = logging.getLogger(__name__)

FILE_NAME = "journal.db"


class ClaimLost(Exception):
    """Another process performs this intent now."""


class Journal:
    """The journal of one user. Make it with `Journal.open`.

    Attributes:
        notices: what happened while opening that the user should know.
    """

    def __init__(
        self, path: Path, database: sqlite3.Connection | None, *, problem: TpuError | None = None, notice: str = ""
    ) -> None:
        self._path = path
        self._database = database
        self._file = opening.identity_of(path)
        self._problem = problem
        self._lock = threading.Lock()
        self.owner = new_owner()
        self.notices = tuple(filter(None, (notice, problem.message if problem else "")))

    @classmethod
    def open(cls, folder: Path) -> Journal:
        """Open the journal in a folder. Never raises: without it nodes can still be looked at, only not asked for."""
        path = folder / FILE_NAME
        try:
            database, notice = _opened(path)
        except opening.Damaged as error:
            return cls(path, None, problem=opening.unwritable(path, error))
        except JournalUnwritable as problem:
            return cls(path, None, problem=problem)
        return cls(path, database, notice=notice)

    @classmethod
    def of_user(cls) -> Journal:
        """The one in the user's folder; never raises, as `open`: what costs must end also where there can be none."""
        try:
            return cls.open(data_dir())
        except JournalUnwritable as problem:
            return cls(data_path() / FILE_NAME, None, problem=problem)

    def close(self) -> None:
        """Close the file; further calls raise `JournalUnwritable`."""
        with self._lock:
            if self._database is not None:
                self._database.close()
            self._database = None

    def begin(self, wanted: Intent) -> Intent:
        """Write down a new intent as ours, or give the open one that means the same.

        Raises:
            NodeExists, WrongState: see `settle_conflict`.
            JournalUnwritable: it is not written down, so it must not be performed.
        """
        with self.writing() as database:
            known = _open_intents(database)
            chosen = settle_conflict(known, wanted)
            if chosen is wanted:
                chosen = replace(wanted, owner=self.owner, may_appear=may_appear(known, wanted))
                _insert(database, chosen)
            return chosen

    def save(self, intent: Intent) -> None:
        """Write down how far an intent of ours has come.

        Raises:
            ClaimLost: it is no longer ours; nothing more may be done about it here.
        """
        with self.writing() as database:
            if not _update(database, intent, self.owner):
                raise ClaimLost(intent.intent_id)

    def claim(self, intent_id: str) -> Intent | None:
        """Take over an open intent whose process is gone; None when it is not to be had."""
        intent = self.find(intent_id)
        if intent is None or intent.settled or not is_gone(intent.owner):
            return None
        with self.writing() as database:
            # only from the owner that was found dead: another process may have been faster
            _take(database, intent_id, intent.owner, self.owner)
            taken = _find(database, intent_id)
        return taken if taken and taken.owner == self.owner and not taken.settled else None

    def release(self, intent_id: str) -> None:
        """Let an open intent of ours go, for another process or a later one to take over."""
        with self.writing() as database:
            _take(database, intent_id, self.owner, "")

    def dismiss(self, intent_id: str) -> None:
        """List a settled intent no longer.

        Raises:
            WrongState: it is still open.
        """
        with self.writing() as database:
            intent = _find(database, intent_id)
            if intent is not None and not intent.settled:
                raise WrongState("What is still being done cannot be dismissed.", hint="Wait until it is done.")
            database.execute("UPDATE intents SET dismissed = 1 WHERE intent_id = ?", (intent_id,))

    def find(self, intent_id: str) -> Intent | None:
        """One intent, settled or not."""
        with self.reading() as database:
            return _find(database, intent_id)

    def listed(self, failed_since: float, *, endpoint: str, project: str) -> tuple[Intent, ...]:
        """Open intents of a project in a cloud, and those that failed since then and were not dismissed, oldest first.

        Those of other clouds are for other fleets: a node of the same name there is another node.
        """
        with self.reading() as database:
            rows = database.execute(
                "SELECT body, owner FROM intents"
                " WHERE endpoint = ? AND (settled = 0 OR (dismissed = 0 AND updated_at >= ?))"
                " ORDER BY created_at, intent_id",
                (endpoint, failed_since),
            ).fetchall()
        ours = (each for each in intents_of(rows) if each.node_name.project == project)
        return tuple(each for each in ours if not each.settled or each.error)

    def meant(self, name: NodeName, *, endpoint: str, since: float) -> tuple[Intent, ...]:
        """What was meant for a node and not over before that time, settled or not, newest first."""
        with self.reading() as database:
            rows = database.execute(
                "SELECT body, owner FROM intents WHERE endpoint = ? AND node_name = ? AND updated_at >= ?"
                " ORDER BY created_at DESC, intent_id",
                (endpoint, str(name), since),
            ).fetchall()
        return tuple(intents_of(rows))

    def history(self, intent_id: str) -> tuple[dict[str, Any], ...]:
        """What happened to an intent, oldest first."""
        with self.reading() as database:
            rows = database.execute(
                "SELECT at, phase, message, error_code FROM events WHERE intent_id = ? ORDER BY seq", (intent_id,)
            ).fetchall()
        return tuple({"at": row[0], "phase": row[1], "message": row[2], "error_code": row[3]} for row in rows)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The database, to be read.

        Raises:
            JournalUnwritable: it cannot be.
        """
        with self._lock:
            if self._database is None:
                raise self._problem or opening.unwritable(self._path, sqlite3.ProgrammingError("it is closed"))
            try:
                yield self._current(self._database)
            except opening.Damaged as error:
                raise opening.unwritable(self._path, error) from error
            except sqlite3.Error as error:
                raise opening.unwritable(self._path, error) from error

    def _current(self, database: sqlite3.Connection) -> sqlite3.Connection:
        """The database, opened anew where another process has put a mended one in the place of a damaged one."""
        found = opening.identity_of(self._path)
        if found is None or found == self._file:
            return database
        self._database, _ = _opened(self._path)
        self._file = found
        database.close()
        return self._database

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it is on disk at the end, or nothing.

        Raises:
            JournalUnwritable: nothing was written.
        """
        with self.reading() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # SQLite may have rolled back by itself
                    database.execute("ROLLBACK")
                raise


def _opened(path: Path) -> tuple[sqlite3.Connection, str]:
    """The file, and what the user should know of it; raises as `opening.open_mended` does."""
    try:
        return opening.open_database(path), ""
    except opening.Damaged:
        return opening.open_mended(path)


def _open_intents(database: sqlite3.Connection) -> list[Intent]:
    rows = database.execute("SELECT body, owner FROM intents WHERE settled = 0").fetchall()
    return list(intents_of(rows))


def _find(database: sqlite3.Connection, intent_id: str) -> Intent | None:
    row = database.execute("SELECT body, owner FROM intents WHERE intent_id = ?", (intent_id,)).fetchone()
    return _read(row) if row else None


def intents_of(rows: Iterable[tuple[str, str]]) -> Iterator[Intent]:
    """Of bodies and owners. One that is damaged is left out: it must keep nobody from what the others are about."""
    for row in rows:
        try:
            yield _read(row)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, TpuError):
            log.exception("an intent in the journal is damaged, and left out: %s", row[0][:200])


def _read(row: tuple[str, str]) -> Intent:
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


def _take(database: sqlite3.Connection, intent_id: str, old_owner: str, new_owner: str) -> None:
    database.execute(
        "UPDATE intents SET owner = ? WHERE intent_id = ? AND owner = ? AND settled = 0",
        (new_owner, intent_id, old_owner),
    )


def _record(database: sqlite3.Connection, intent: Intent) -> None:
    database.execute(
        "INSERT INTO events (intent_id, at, phase, message, error_code) VALUES (?, ?, ?, ?, ?)",
        (intent.intent_id, intent.updated_at, intent.phase, intent.message, intent.error.code if intent.error else ""),
    )
