"""The journal's tables and their version."""

from __future__ import annotations

import sqlite3

VERSION = 2

# layout 1, of before the first release, does not say which cloud an intent is meant for; to perform it in another one
# could delete a node that nobody meant, so it is forgotten (nodes are found by listing them)
_TABLES = """
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
            for statement in _TABLES.split(";\n"):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {VERSION}")
        database.execute("COMMIT")
    except BaseException:
        database.execute("ROLLBACK")
        raise
