"""The tables of the store, and the upgrade of a file from an older emulator."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VERSION = 2
"""Version of the file. Increase it if older emulators can't use the file any more; new columns don't require that."""

_TABLES = """
create table if not exists nodes (
    name text primary key, zone text not null, body blob not null
);
create table if not exists operations (
    seq integer primary key autoincrement, name text unique not null, zone text not null,
    verb text not null, target text not null, created real not null,
    due real, stuck integer not null, verdict blob, state_before integer not null,
    cancel_requested integer not null, ended real, error blob, response blob
);
create table if not exists spans (
    seq integer primary key autoincrement, uid text not null, name text not null, accelerator_type text not null,
    zone text not null, spot integer not null, nanos_per_hour integer,
    started real not null, ended real, is_waived integer not null default 0
);
create table if not exists facts (key text primary key, value text not null);
create table if not exists queued_resources (
    seq integer primary key autoincrement, name text unique not null, zone text not null, state integer not null,
    body blob not null, created real not null, wake real, valid_from real, valid_until real, verdict blob
);
create table if not exists queued_specs (
    queued_resource text not null, zone text not null, accelerator_type text not null, tier text not null,
    addresses integer not null, count integer not null
);
create table if not exists extras (name text primary key, value text not null);
create table if not exists requests (
    request_id text not null, method text not null, target text not null, operation text not null,
    primary key (request_id, method, target)
);
create table if not exists removed_nodes (name text primary key, zone text not null, body blob not null, moment real);
"""

_COLUMNS = {
    "nodes": {
        "state": "integer not null default 0",
        "accelerator_type": "text not null default ''",
        "tier": "text not null default ''",
        "addresses": "integer not null default 0",
        "occupies": "integer",
        "queued_resource": "text not null default ''",
        "expires": "real",
    },
    "operations": {
        "version": "text not null default 'v2'",
        "ready_at": "real",
    },
    "spans": {"mode": "text not null default 'on-demand'"},
}
"""Columns that were added to existing tables; `_add_columns` adds them to older files."""

_INDEXES = """
create index if not exists operations_due on operations (due) where due is not null;
create index if not exists operations_undone on operations (target) where ended is null;
create index if not exists operations_in_zone on operations (zone, name);
create index if not exists nodes_in_zone on nodes (zone, name);
create index if not exists nodes_alike on nodes (zone, accelerator_type, tier, addresses, occupies);
create index if not exists nodes_queued on nodes (queued_resource) where queued_resource != '';
create index if not exists nodes_expiring on nodes (expires) where expires is not null;
create index if not exists queued_in_state on queued_resources (state);
create index if not exists queued_waking on queued_resources (wake) where wake is not null;
create index if not exists specs_queued on queued_specs (queued_resource);
create index if not exists spans_open on spans (uid) where ended is null;
create index if not exists removed_at on removed_nodes (moment);
"""


_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)
"""SQLite's codes for a full disk: no space, a file size limit or quota, or no space for the write-ahead log's index."""


class DiskFull(OSError):
    """The disk is full; no data stored earlier is lost."""


class _Connection(sqlite3.Connection):
    """A connection that distinguishes a full disk from a damaged file."""

    def execute(self, *statement: Any) -> sqlite3.Cursor:
        """Execute one statement.

        Raises:
            DiskFull: the disk is full.
        """
        with _disk_full_raised():
            return super().execute(*statement)

    def executescript(self, script: Any, /) -> sqlite3.Cursor:
        """Execute several statements.

        Raises:
            DiskFull: the disk is full.
        """
        with _disk_full_raised():
            return super().executescript(script)


@contextlib.contextmanager
def _disk_full_raised() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", None) not in _NO_ROOM:
            raise
        raise DiskFull(f"the disk of the emulator's state folder is full ({error})") from error


def opened(path: Path) -> sqlite3.Connection:
    """Open the database, with all tables and columns.

    Raises:
        sqlite3.DatabaseError: the file is damaged, is not an emulator's file, or was written by a newer emulator.
        DiskFull: the disk is full; the file is still usable.
    """
    with contextlib.ExitStack() as on_failure:
        db = sqlite3.connect(path, isolation_level=None, factory=_Connection)
        on_failure.callback(db.close)
        # write-ahead log without a sync per commit: a crash of the process loses nothing, and calls are fast
        db.execute("pragma journal_mode = wal")
        db.execute("pragma synchronous = normal")
        # check the version before writing to the file
        _refuse_newer(db)
        db.executescript(_TABLES)
        _add_columns(db)
        db.executescript(_INDEXES)
        # set the version last, so that a partly upgraded file is upgraded again
        db.execute(f"pragma user_version = {VERSION}")
        # otherwise a damaged page would be noticed only when a call reads it
        (verdict,) = db.execute("pragma quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        on_failure.pop_all()
    return db


def _refuse_newer(db: sqlite3.Connection) -> None:
    (version,) = db.execute("pragma user_version").fetchone()
    if version > VERSION:
        raise sqlite3.DatabaseError(
            f"it was written by a newer emulator, schema {version}; this one supports {VERSION}"
        )


def _add_columns(db: sqlite3.Connection) -> None:
    for table, columns in _COLUMNS.items():
        # SQLite has no "add column if not exists"
        present = _column_names(db, table)
        for name, kind in columns.items():
            if name not in present:
                db.execute(f"alter table {table} add column {name} {kind}")


def _column_names(db: sqlite3.Connection, table: str) -> set[str]:
    return {str(row[1]) for row in db.execute(f"pragma table_info({table})")}
