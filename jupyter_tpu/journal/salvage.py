"""Read the readable rows of a damaged journal, table by table. The rows are read from a copy, which may be modified."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_tpu.errors import BadInput
from jupyter_tpu.journal import schema
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.models import NodeName

# the page size of every journal: SQLite's default since 3.12, which we don't change
_PAGE = 4096
_TYPES: Mapping[str, tuple[type, ...]] = {"TEXT": (str,), "REAL": (float, int), "INTEGER": (int,)}
# SQLite's messages quote damaged bytes, so even they may not be valid UTF-8
_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvage:
    """The recovered rows, by table, with the columns of `schema.columns`.

    Attributes:
        lost: the tables in which rows are or may be missing.
    """

    rows: Mapping[str, tuple[Row, ...]]
    lost: frozenset[str]


def salvage(path: Path) -> Salvage:
    """Read the readable parts of a database and its write-ahead log. Damaged contents never raise an error."""
    _mend_header(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.text_factory = lambda raw: raw.decode(errors="replace")
        found = {table: _read(database, table, columns) for table, columns in schema.columns().items()}
    return Salvage(
        rows={table: rows for table, (rows, _) in found.items()},
        lost=frozenset(table for table, (_, is_whole) in found.items() if not is_whole),
    )


def _mend_header(path: Path) -> None:
    """Restore the constant values in the first 100 bytes of the file (sqlite.org/fileformat2.html, 1.3)."""
    if not path.exists() or path.stat().st_size < _PAGE:
        return
    with path.open("r+b") as file:
        header = bytearray(file.read(100))
        header[:24] = b"SQLite format 3\0" + _PAGE.to_bytes(2, "big") + b"\x02\x02\0\x40\x20\x20"
        header[28:32] = (path.stat().st_size // _PAGE).to_bytes(4, "big")
        header[32:40] = bytes(8)  # no free pages, because this copy is read-only
        header[44:48] = (4).to_bytes(4, "big")
        header[52:60] = bytes(7) + b"\x01"  # auto-vacuum off, UTF-8
        header[92:96] = header[24:28]
        file.seek(0)
        file.write(header)


def _read(database: sqlite3.Connection, table: str, columns: tuple[schema.Column, ...]) -> tuple[tuple[Row, ...], bool]:
    """Return the valid rows of a table, and whether no rows are missing."""
    named = f"SELECT rowid, {', '.join(column.name for column in columns)} FROM {table}"
    found: dict[int, Row] = {}
    is_whole = _is_whole(database, table) and _scan(database, f"{named} NOT INDEXED ORDER BY rowid", found)
    if not is_whole:  # read from both ends up to the damage, and from the index, which contains each row a second time
        for rest in ("NOT INDEXED ORDER BY rowid", "NOT INDEXED ORDER BY rowid DESC", f"INDEXED BY whole_{table}"):
            _scan(database, f"{named} {rest}", found)
    rows = tuple(found[rowid] for rowid in sorted(found) if _is_valid(table, columns, found[rowid]))
    return rows, is_whole and len(rows) == len(found)


def _is_whole(database: sqlite3.Connection, table: str) -> bool:
    try:
        return database.execute(f"PRAGMA integrity_check({table})").fetchall() == [("ok",)]
    except _UNREADABLE:
        return False


def _scan(database: sqlite3.Connection, query: str, found: dict[int, Row]) -> bool:
    """Add newly found rows to `found`; return whether all results of the query could be read."""
    seen = set[int]()
    try:
        for rowid, *row in database.execute(query):
            if rowid in seen:  # damaged pages can form a cycle
                return False
            seen.add(rowid)
            found.setdefault(rowid, tuple(row))
    except _UNREADABLE:
        return False
    return True


def _is_valid(table: str, columns: tuple[schema.Column, ...], row: Row) -> bool:
    for column, value in zip(columns, row, strict=True):
        if not (isinstance(value, _TYPES[column.kind]) or (value is None and column.may_be_null)):
            return False
    try:
        _CHECKS[table](dict(zip((column.name for column in columns), row, strict=True)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, BadInput):
        return False
    return True


def _check_intent(row: Mapping[str, Any]) -> None:
    Intent.from_json(_object(row["body"]))


def _check_event(_row: Mapping[str, Any]) -> None:
    """Accept every event as valid, because events are only displayed."""


def _check_span(row: Mapping[str, Any]) -> None:
    body = _object(row["body"])
    NodeName.parse(row["node_name"])
    float(body["unwatched_s"]), str(body["accelerator_type"]), bool(body["spot"])


def _check_document(row: Mapping[str, Any]) -> None:
    """Accept every budget. Even an invalid budget must be kept, because it blocks spending until it is set again."""
    if row["kind"] != "budget":
        _object(row["body"])


def _check_entry(row: Mapping[str, Any]) -> None:
    _object(row["detail"])


def _object(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise TypeError(text[:100])
    return found


_CHECKS: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "intents": _check_intent,
    "events": _check_event,
    "spans": _check_span,
    "documents": _check_document,
    "audit": _check_entry,
}
