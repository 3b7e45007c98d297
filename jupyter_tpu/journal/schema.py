"""The journal's tables, and the migrations from earlier versions."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass

VERSION = 4

# layout 1, from before the first release, doesn't store an intent's cloud. In another cloud, the intent could delete
# the wrong node, so drop these intents; their nodes are still found by listing.
_INTENTS = """
DROP TABLE IF EXISTS events;
DROP TABLE IF EXISTS intents;
CREATE TABLE intents (
    intent_id TEXT PRIMARY KEY,
    endpoint TEXT NOT NULL,
    node_name TEXT NOT NULL,
    verb TEXT NOT NULL,
    settled INTEGER NOT NULL,
    dismissed INTEGER NOT NULL DEFAULT 0,
    owner TEXT NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX one_open_wish ON intents (endpoint, node_name, verb) WHERE settled = 0;
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    intent_id TEXT NOT NULL REFERENCES intents ON DELETE CASCADE,
    at REAL NOT NULL,
    phase TEXT NOT NULL,
    message TEXT NOT NULL,
    error_code TEXT NOT NULL
);
"""

# since layout 3: spending, and the user's settings
_MONEY = """
CREATE TABLE spans (
    endpoint TEXT NOT NULL,
    node_name TEXT NOT NULL,
    uid TEXT NOT NULL,
    began_at REAL NOT NULL,
    ended_at REAL NOT NULL,
    is_open INTEGER NOT NULL,
    usd_per_hour REAL,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX one_open_span ON spans (endpoint, node_name) WHERE is_open = 1;
CREATE INDEX spans_by_time ON spans (endpoint, ended_at);
CREATE TABLE documents (
    endpoint TEXT NOT NULL,
    project TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    body TEXT NOT NULL,
    updated_at REAL NOT NULL,
    PRIMARY KEY (endpoint, project, kind, name)
);
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    endpoint TEXT NOT NULL,
    project TEXT NOT NULL,
    at REAL NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER audit_is_not_shortened BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'append only'); END;
"""

# since layout 4: an index contains each row about money a second time, so that the integrity check finds any changed
# byte
_TWICE = """
CREATE INDEX whole_documents ON documents (endpoint, project, kind, name, body, updated_at);
CREATE INDEX whole_spans ON spans (endpoint, node_name, uid, began_at, ended_at, is_open, usd_per_hour, body);
"""
_STEPS = ((2, _INTENTS), (3, _MONEY), (4, _TWICE))
_SIGNS = ((1, "intents"), (3, "spans"), (4, "whole_documents"))

TABLES = ("intents", "events", "spans", "documents", "audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table; `kind` is ``TEXT``, ``REAL`` or ``INTEGER``."""

    name: str
    kind: str
    may_be_null: bool


def columns_of(database: sqlite3.Connection, table: str) -> tuple[Column, ...]:
    """Return a table's columns in order, or no columns if the table doesn't exist."""
    rows = database.execute(f"PRAGMA table_info({table})").fetchall()
    return tuple(Column(name=row[1], kind=row[2], may_be_null=not row[3] and not row[5]) for row in rows)


def columns() -> dict[str, tuple[Column, ...]]:
    """Return the columns of each table in the current layout."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        make_tables(database)
        return {table: columns_of(database, table) for table in TABLES}


def matches_its_version(database: sqlite3.Connection) -> bool:
    """Return whether the tables in a file match the file's version number."""
    found = version_of(database)
    names = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
    if any((name in names) != (found >= version) for version, name in _SIGNS):
        return False
    return found < VERSION or all(columns_of(database, table) == own for table, own in columns().items())


def version_of(database: sqlite3.Connection) -> int:
    """Return the version of the tables in a file, or 0 if the file has no tables yet."""
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def forget(database: sqlite3.Connection, before: float) -> None:
    """Delete settled intents that were last updated before a time (Unix seconds), with their events."""
    database.execute("DELETE FROM intents WHERE settled = 1 AND updated_at < ?", (before,))


def make_tables(database: sqlite3.Connection) -> None:
    """Create the tables or upgrade an earlier layout. Two processes may call this at the same time."""
    database.execute("BEGIN IMMEDIATE")
    try:
        if version_of(database) < VERSION:
            _bring_up(database, version_of(database))
            database.execute(f"PRAGMA user_version = {VERSION}")
        database.execute("COMMIT")
    except BaseException:
        database.execute("ROLLBACK")
        raise


def _bring_up(database: sqlite3.Connection, found: int) -> None:
    """Run the upgrade steps from the existing layout to the current one. Rows of layout 1 are discarded."""
    for version, tables in _STEPS:
        if found < version:
            for statement in tables.split(";\n"):
                database.execute(statement)
