"""A journal in the place of a damaged one: what can still be read is carried over, the damaged file is kept.

The new one is made whole beside it, and then put in its place step by step. A process may die at any of them: as long
as the new one waits, the next process puts it in its place, and opens nothing before.
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

from jupyter_tpu.journal import schema
from jupyter_tpu.journal.salvage import Salvage, salvage

if sys.platform != "win32":
    import fcntl

EVERYWHERE = "*"
"""In the place of endpoint and project: holds for all of them."""

LOSS = "loss"
"""The kind of the documents that say that budgets may be lost; their names say where the damaged file is."""

DAMAGE = "journal_damaged"
DAMAGE_REASON = "The journal was damaged. A new one took its place, with all that could still be read."

COMPANIONS = ("-wal", "-shm")
"""What SQLite keeps beside a database; they hold of its content what is not in it yet."""

_WAITING = ".mended"
_SCRATCH = ".journal-"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time makes a journal or mends it; raises OSError."""
    with os.fdopen(os.open(f"{path}.lock", os.O_WRONLY | os.O_CREAT, 0o600), "w") as lock:
        if sys.platform != "win32":
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _scratch(path: Path) -> Iterator[Path]:
    """A folder beside it; those of processes that died are removed."""
    if sys.platform != "win32":  # where nothing is locked another process may be at work
        for left in path.parent.glob(f"{_SCRATCH}*"):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=path.parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def make_new(path: Path) -> None:
    """Make an empty journal, whole or not at all: an empty file is never a new one. Call it `locked`.

    Raises:
        OSError, sqlite3.Error: the disk forbids it.
    """
    with _scratch(path) as folder:
        with _new(folder / path.name) as database:
            schema.make_tables(database)
        (folder / path.name).replace(path)


def is_cut_off(path: Path) -> bool:
    """Whether a mended journal waits to be put in its place: who was at it has died, or is at it still."""
    return _waiting(path) is not None


def _waiting(path: Path) -> Path | None:
    return next(iter(sorted(path.parent.glob(f"{path.name}.damaged-*{_WAITING}"))), None)


def mend(path: Path) -> tuple[Path, bool]:
    """Put a journal with what can be read of a damaged one in its place. Call it `locked`.

    Returns where the damaged one is kept, and whether all of it is known to have been carried over.

    Raises:
        OSError, sqlite3.Error: the disk forbids it; the damaged one is where it was, or the next call goes on.
    """
    waiting, is_whole = _waiting(path), False
    if waiting is None:
        waiting, is_whole = _mended(path)
    return _put_in_place(path, waiting), is_whole


def _mended(path: Path) -> tuple[Path, bool]:
    """A new journal that waits, and whether it has all."""
    with _scratch(path) as folder:
        copy, new = folder / "damaged", folder / path.name
        for suffix in ("", "-wal"):
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        found, aside = salvage(copy), _free_name(path)
        with _new(new) as database:
            schema.make_tables(database)
            lost = _carry_over(database, found, str(aside), time.time())
        return new.replace(f"{aside}{_WAITING}"), not lost


def _put_in_place(path: Path, waiting: Path) -> Path:
    """Also after a process has died half-way; what it has done already is not done again."""
    aside = waiting.with_name(waiting.name.removesuffix(_WAITING))
    if path.exists() and not (aside.exists() and aside.samefile(path)):
        _keep(path, _free_name(path) if aside.exists() else aside)
    for suffix in COMPANIONS:
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{aside}{suffix}")
    waiting.replace(path)
    return aside


@contextmanager
def _new(path: Path) -> Iterator[sqlite3.Connection]:
    """A file that nobody else knows yet; it is on the disk at the end, and not before."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")
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
    """Under another name as well: at no moment is there no journal, which the next process would begin anew."""
    try:
        os.link(path, aside)
    except OSError:  # a file system without links
        with _scratch(path) as folder:
            shutil.copyfile(path, folder / path.name)
            (folder / path.name).chmod(0o600)
            (folder / path.name).replace(aside)


def _carry_over(database: sqlite3.Connection, found: Salvage, copy: str, now: float) -> frozenset[str]:
    """All in one transaction; which tables are not whole."""
    database.execute("BEGIN")
    lost = set(found.lost)
    for table, rows in found.rows.items():
        names = [column.name for column in schema.columns_of(database, table)]
        statement = f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
        if database.executemany(statement, rows).rowcount < len(rows):
            lost.add(table)
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
    """In the audit log of each project that is known still."""
    database.execute(
        "INSERT INTO audit (endpoint, project, at, action, subject, reason, detail)"
        " SELECT endpoint, project, ?, ?, ?, ?, '{}' FROM"
        " (SELECT endpoint, project FROM documents UNION SELECT endpoint, project FROM audit) WHERE project != ?",
        (now, DAMAGE, copy, DAMAGE_REASON, EVERYWHERE),
    )
