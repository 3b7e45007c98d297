"""Repair a damaged journal: copy the readable rows to a new file that replaces it, and keep the damaged file.

The new file is written next to the damaged file, with the suffix ``.mended``, and then replaces the damaged file step
by step. If a process exits before it has finished, the ``.mended`` file remains, and the next process finishes the
replacement before it opens the journal.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from jupyter_tpu.errors import Text
from jupyter_tpu.journal import schema
from jupyter_tpu.journal.salvage import Salvage, salvage

if sys.platform != "win32":
    import fcntl

EVERYWHERE = "*"
"""Matches every endpoint and project."""

LOSS = "loss"
"""Kind of the documents that record that budgets may be lost; their names are the paths of the damaged files."""

DAMAGE = "journal_damaged"
DAMAGE_REASON = Text("The journal was damaged. Everything that could still be read was copied to a new journal.")

COMPANIONS = ("-wal", "-shm")
"""Suffixes of the files that SQLite stores next to a database; they contain recent changes."""

_WAITING = ".mended"
_SCRATCH = ".journal-"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the journal, so that only one process at a time creates or repairs it; raises OSError."""
    with os.fdopen(os.open(f"{path}.lock", os.O_WRONLY | os.O_CREAT, 0o600), "w") as lock:
        if sys.platform != "win32":
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _scratch(path: Path) -> Iterator[Path]:
    """Yield a temporary folder next to the journal, on the same file system. Remove folders of earlier repairs."""
    if sys.platform != "win32":  # Windows has no such lock, so another process may be using its folder
        for left in path.parent.glob(f"{_SCRATCH}*"):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=path.parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def make_new(path: Path) -> None:
    """Create an empty journal atomically, so that no process sees an incomplete file. Call this within `locked`.

    Raises:
        OSError, sqlite3.Error: the journal could not be written.
    """
    with _scratch(path) as folder:
        with _new(folder / path.name) as database:
            schema.make_tables(database)
        (folder / path.name).replace(path)


def is_unfinished(path: Path) -> bool:
    """Return whether a repair is unfinished: it was interrupted or is still running."""
    return _waiting(path) is not None


def _waiting(path: Path) -> Path | None:
    return next(iter(sorted(path.parent.glob(f"{path.name}.damaged-*{_WAITING}"))), None)


def repair_journal(path: Path) -> tuple[Path, bool]:
    """Replace a damaged journal with a new file that contains all readable rows. Call this while `locked`.

    Returns the new path of the damaged file, and whether all rows are known to be copied.

    Raises:
        OSError, sqlite3.Error: a write failed. The damaged file is then unchanged, or the next call continues the
            repair.
    """
    # after an interrupted repair, it is unknown whether everything was copied
    waiting, is_whole = _waiting(path), False
    if waiting is None:
        waiting, is_whole = _mended(path)
    return _put_in_place(path, waiting), is_whole


def _mended(path: Path) -> tuple[Path, bool]:
    """Write the new journal under a temporary name; return its path and whether it contains all rows."""
    with _scratch(path) as folder:
        copy, new = folder / "damaged", folder / path.name
        for suffix in ("", "-wal"):
            # don't copy the -shm file, because SQLite rebuilds it
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        found, aside = salvage(copy), _free_name(path)
        with _new(new) as database:
            schema.make_tables(database)
            lost = _carry_over(database, found, str(aside), time.time())
        return new.replace(f"{aside}{_WAITING}"), not lost


def _put_in_place(path: Path, waiting: Path) -> Path:
    """Replace the damaged file with the new file. Skip steps that an interrupted repair has already completed."""
    aside = waiting.with_name(waiting.name.removesuffix(_WAITING))
    if path.exists() and not (aside.exists() and aside.samefile(path)):
        _keep(path, _free_name(path) if aside.exists() else aside)
    # remove before creating the new file: SQLite would apply the old write-ahead log to it
    for suffix in COMPANIONS:
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{aside}{suffix}")
    waiting.replace(path)
    return aside


@contextmanager
def _new(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a new database that no other process can see yet; flush it to disk on exit."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")  # one fsync at the end is enough; an incomplete file is never used
        yield database
        database.execute("PRAGMA journal_mode = WAL")
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _free_name(path: Path) -> Path:
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}")
    number = 1
    while (chosen := aside if number == 1 else aside.with_name(f"{aside.name}-{number}")).exists():
        number += 1
    return chosen


def _keep(path: Path, aside: Path) -> None:
    """Give the damaged file a second name, and keep its first name.

    Without the first name, another process would create an empty journal.
    """
    try:
        os.link(path, aside)
    except OSError:  # the file system doesn't support hard links
        with _scratch(path) as folder:
            shutil.copyfile(path, folder / path.name)
            (folder / path.name).chmod(0o600)
            (folder / path.name).replace(aside)


def _carry_over(database: sqlite3.Connection, found: Salvage, copy: str, now: float) -> frozenset[str]:
    """Copy all rows in one transaction; return the names of the incomplete tables."""
    database.execute("BEGIN")
    lost = set(found.lost)
    for table, rows in found.rows.items():
        names = [column.name for column in schema.columns_of(database, table)]
        statement = f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
        # a row that the new table ignores as a duplicate is lost, too
        if database.executemany(statement, rows).rowcount < len(rows):
            lost.add(table)
    # budgets are documents, and spans are the usage that counts against them
    if "documents" in lost or ("spans" in lost and _has_budgets(database)):
        _note_loss(database, copy, now)
    _note_damage(database, copy, now)
    database.execute("COMMIT")
    return frozenset(lost)


def _has_budgets(database: sqlite3.Connection) -> bool:
    return database.execute("SELECT 1 FROM documents WHERE kind = 'budget'").fetchone() is not None


def _note_loss(database: sqlite3.Connection, copy: str, now: float) -> None:
    database.execute(
        "INSERT INTO documents (endpoint, project, kind, name, body, updated_at) VALUES (?, ?, ?, ?, '{}', ?)",
        (EVERYWHERE, EVERYWHERE, LOSS, copy, now),
    )


def _note_damage(database: sqlite3.Connection, copy: str, now: float) -> None:
    """Add a line to the audit log of each project in the new journal."""
    database.execute(
        "INSERT INTO audit (endpoint, project, at, action, subject, reason, detail)"
        " SELECT endpoint, project, ?, ?, ?, ?, '{}' FROM"
        " (SELECT endpoint, project FROM documents UNION SELECT endpoint, project FROM audit) WHERE project != ?",
        (now, DAMAGE, copy, DAMAGE_REASON, EVERYWHERE),
    )
