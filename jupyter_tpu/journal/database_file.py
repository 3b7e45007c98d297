"""Open the journal's file.

A damaged file is kept and repaired, never overwritten. A file from a newer version is rejected.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from jupyter_tpu.error_actions import copy_command
from jupyter_tpu.errors import JournalUnwritable, Text
from jupyter_tpu.journal import repair, schema

# how long one process waits for another's write: our choice, much longer than a write takes on a healthy disk
_BUSY_S = 10.0
# how long to store settled intents: our choice, bounds the file size
_KEEP_S = 90 * 24 * 3600.0
# result codes caused by the disk, its permissions or other processes, not by damage (sqlite.org/rescode.html)
_OUTSIDE = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)


class Damaged(Exception):
    """The file is not a complete SQLite database, or its tables don't match its version."""


def open_database(path: Path) -> sqlite3.Connection:
    """Open and check the file; create it if it doesn't exist.

    Raises:
        Damaged: the file must be repaired first.
        JournalUnwritable: the disk is full, permissions are missing, or a newer jupyter_tpu wrote the file.
    """
    try:
        # check first: after an interrupted repair, this may be the damaged file without its write-ahead log
        if repair.is_unfinished(path):
            raise Damaged("its repair was interrupted")
        _make_first(path)
        return _opened(path)
    except sqlite3.DatabaseError as error:
        if _is_damage(path, error):
            raise Damaged(str(error)) from error
        raise unwritable(path, error) from error
    # SQLite's message about damage may quote bytes that are not valid text
    except UnicodeDecodeError as error:
        raise Damaged(str(error)) from error
    except OSError as error:
        raise unwritable(path, error) from error


def open_repaired(path: Path) -> tuple[sqlite3.Connection, str]:
    """Repair and open a damaged file; return the database and a notice. Only one process repairs the file.

    Raises:
        Damaged, JournalUnwritable: the file could not be repaired.
    """
    notice = ""
    try:
        with repair.locked(path):
            try:  # another process may have repaired the file while this process waited for the lock
                return open_database(path), notice
            except Damaged:
                notice = _notice(*repair.repair_journal(path))
    except (OSError, sqlite3.Error) as error:
        raise unwritable(path, error) from error
    return open_database(path), notice


def _notice(aside: Path, is_whole: bool) -> str:
    text = (
        Text(
            "The journal was damaged. The damaged file is kept as {path}. Everything in it was copied to a new journal."
        )
        if is_whole
        else Text(
            "The journal was damaged. The damaged file is kept as {path}. Everything readable was copied to a new "
            "journal; nodes are found by their labels."
        )
    )
    return text.with_arguments(path=aside)


def _make_first(path: Path) -> None:
    """Create the file if it doesn't exist. Creation is atomic, so an empty file counts as damaged."""
    if not _is_there(path):
        with repair.locked(path):
            if not _is_there(path):
                repair.make_new(path)
    if not path.exists() or not path.stat().st_size:
        raise Damaged("it is empty")


def _is_there(path: Path) -> bool:
    return path.exists() or Path(f"{path}-wal").exists()


def _is_damage(path: Path, error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    if code in (None, sqlite3.SQLITE_IOERR_SHORT_READ):
        return True
    if code & 0xFF == sqlite3.SQLITE_READONLY:  # also returned for a damaged format version in the header
        return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return code & 0xFF not in _OUTSIDE


def _opened(path: Path) -> sqlite3.Connection:
    _close_to_others(path)
    database = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        _prepare(database, path)
    except BaseException:
        database.close()
        raise
    return database


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    # (1): stop at the first problem, which is enough to show that the file is damaged
    problem = database.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if problem != "ok":
        raise Damaged(problem)
    if path.stat().st_size % database.execute("PRAGMA page_size").fetchone()[0]:
        raise Damaged("its last page is incomplete")
    found = schema.version_of(database)
    if found > schema.VERSION:
        raise _newer(path, found)
    if not schema.matches_its_version(database):
        raise Damaged(f"its tables are not those of layout {found}")
    database.execute("PRAGMA journal_mode = WAL")
    # FULL: an intent must be on the disk before its request is sent
    database.execute("PRAGMA synchronous = FULL")
    database.execute("PRAGMA foreign_keys = ON")
    schema.make_tables(database)
    schema.forget(database, time.time() - _KEEP_S)


def _close_to_others(path: Path) -> None:
    """Make the file private before opening it, because SQLite's companion files inherit its permissions.

    Errors are ignored here, because opening the file will report them.
    """
    for file in (Path(f"{path}{name}") for name in ("", *repair.COMPANIONS)):
        with suppress(OSError):
            if file.stat().st_mode & 0o077:
                file.chmod(0o600)


def identity_of(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of the file at this path, or None if the file is missing or unreadable."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def unwritable(path: Path, error: Exception) -> JournalUnwritable:
    """Return the user-facing error that explains why the journal cannot be written."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return JournalUnwritable(
            Text("The journal {path} is damaged ({error}).", path=path, error=error),
            exists="No request was sent to the cloud.",
            hint="Restart the server, or run the command again: jupyter_tpu then repairs the journal.",
            raw=str(error),
        )
    return JournalUnwritable(
        Text("The journal {path} cannot be written ({error}).", path=path, error=error),
        exists="No request was sent to the cloud.",
        hint="Free disk space or fix the permissions of the journal's folder, then try again.",
        raw=str(error),
    )


def _newer(path: Path, found: int) -> JournalUnwritable:
    return JournalUnwritable(
        Text(
            "The journal {path} was written by a newer jupyter_tpu (layout {layout}; this version supports {version}).",
            path=path,
            layout=found,
            version=schema.VERSION,
        ),
        exists="No request was sent to the cloud.",
        hint="Upgrade jupyter_tpu with `pip install --upgrade jupyter-tpu`.",
        actions=(copy_command("pip install --upgrade jupyter-tpu"),),
    )
