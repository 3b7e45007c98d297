"""Store what the two copies of a synced folder had in common after the last sync, in one file for each folder.

If the file is lost or damaged, the next sync is like the first one: it deletes nothing. Every method may block on the
disk, so don't call them in the event loop's thread.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from jupyter_tpu.files import write_whole

_LAYOUT = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rows (side TEXT, path BLOB, entry TEXT NOT NULL, PRIMARY KEY (side, path)) WITHOUT ROWID;
"""
Rows = Mapping[str, "list[Any] | None"]


class SyncState:
    """The state of one folder with one other copy.

    It has the rows of the *base*, which both copies had in common, and for each side those in which it differed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> tuple[dict[str, str], dict[str, dict[str, list[Any] | None]]]:
        """Return the facts, and the rows by side; both are empty before the first sync."""
        try:
            with closing(self._open()) as database:
                facts = dict(database.execute("SELECT name, value FROM facts"))
                rows: dict[str, dict[str, list[Any] | None]] = {}
                for side, path, entry in database.execute("SELECT side, path, entry FROM rows"):
                    rows.setdefault(side, {})[path.decode("utf-8", "surrogateescape")] = json.loads(entry)
                return facts, rows
        except (sqlite3.DatabaseError, ValueError, AttributeError) as error:
            if isinstance(error, sqlite3.OperationalError):  # such as a full disk or a lock: it may be whole
                raise
            self._path.unlink(missing_ok=True)
            return {}, {}

    def save(self, facts: Mapping[str, str], rows: Mapping[str, Rows], *, replaced: frozenset[str]) -> None:
        """Save facts and changed rows in one step.

        Args:
            rows: by side; in the base, None stands for a row that is removed.
            replaced: the sides whose other rows are removed.
        """
        with closing(self._open()) as database:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())
            database.executemany("DELETE FROM rows WHERE side = ?", [(side,) for side in sorted(replaced)])
            for side, changed in rows.items():
                gone = [(side, _bytes(path)) for path, row in changed.items() if row is None and side == "base"]
                database.executemany("DELETE FROM rows WHERE side = ? AND path = ?", gone)
                database.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?)", _stored(side, changed))
            database.execute("COMMIT")

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._path.exists():
            write_whole(self._path, b"")
        database = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        try:
            if database.execute("PRAGMA user_version").fetchone()[0] not in (0, _LAYOUT):
                raise sqlite3.DatabaseError("another layout")
            database.executescript(f"PRAGMA journal_mode = WAL; {_TABLES} PRAGMA user_version = {_LAYOUT};")
        except BaseException:
            with suppress(sqlite3.Error):
                database.close()
            raise
        return database


def _stored(side: str, rows: Rows) -> Iterator[tuple[str, bytes, str]]:
    for path, row in rows.items():
        if row is not None or side != "base":
            yield side, _bytes(path), json.dumps(row)


def _bytes(path: str) -> bytes:
    # a name that is not valid UTF-8 has halves of characters, which SQLite does not store as text
    return path.encode("utf-8", "surrogateescape")
