"""The journal's tables and their version."""

from __future__ import annotations

import sqlite3

VERSION = 3

# layout 1, of before the first release, does not say which cloud an intent is meant for; to perform it in another one
# could delete a node that nobody meant, so it is forgotten (nodes are found by listing them)
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

# since layout 3: money and what the user has laid down
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
_STEPS = ((2, _INTENTS), (3, _MONEY))


def version_of(database: sqlite3.Connection) -> int:
    """The version of the tables in a file; 0 when there are none yet."""
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def forget(database: sqlite3.Connection, before: float) -> None:
    """Drop settled intents, with their history, that nobody has touched since then (Unix seconds)."""
    database.execute("DELETE FROM intents WHERE settled = 1 AND updated_at < ?", (before,))


def make_tables(database: sqlite3.Connection) -> None:
    """Make the tables where there are none of this layout; two processes may try at the same time."""
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
    """Every step from the layout that was found; what the last layouts wrote stays."""
    for version, tables in _STEPS:
        if found < version:
            for statement in tables.split(";\n"):
                database.execute(statement)
