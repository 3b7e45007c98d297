"""Open the journal's file: a damaged one is put aside, never overwritten; a newer one is left alone."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from jupyter_tpu.errors import JournalUnwritable
from jupyter_tpu.journal import schema

# how long one process waits for another's write
_BUSY_S = 10.0
# how long settled intents are kept
_KEEP_S = 90 * 24 * 3600.0


class Damaged(Exception):
    """The file is not a whole SQLite database."""


def open_database(path: Path) -> sqlite3.Connection:
    """Open and check the file, making it on demand.

    Raises:
        Damaged: it must be put aside first.
        JournalUnwritable: the disk or its permissions forbid it, or a newer jupyter_tpu wrote it.
    """
    try:
        return _opened(path)
    except sqlite3.OperationalError as error:
        raise unwritable(path, error) from error
    except sqlite3.DatabaseError as error:
        raise Damaged(str(error)) from error


def _opened(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        _prepare(database, path)
    except BaseException:
        database.close()
        raise
    return database


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    problem = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    if problem != "ok":
        raise Damaged(problem)
    found = schema.version_of(database)
    if found > schema.VERSION:
        raise _newer(path, found)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("PRAGMA foreign_keys = ON")
    schema.make_tables(database)
    schema.forget(database, time.time() - _KEEP_S)
    path.chmod(0o600)


def put_aside(path: Path) -> Path:
    """Rename a damaged journal with its companions, so that nothing of it is lost."""
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}")
    for suffix in ("-wal", "-shm", ""):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.replace(aside.with_name(aside.name + suffix))
    return aside


def unwritable(path: Path, error: Exception) -> JournalUnwritable:
    """Why nothing can be written down now, in words."""
    return JournalUnwritable(
        f"The journal {path} cannot be written ({error}).",
        exists="Nothing was asked of the cloud.",
        hint="Free disk space or mend the permissions of its folder, then try again.",
        raw=str(error),
    )


def _newer(path: Path, found: int) -> JournalUnwritable:
    return JournalUnwritable(
        f"The journal {path} was written by a newer jupyter_tpu (layout {found}, this one knows {schema.VERSION}).",
        exists="Nothing was asked of the cloud.",
        hint="Upgrade with: pip install --upgrade jupyter-tpu",
    )
