"""The emulator's SQLite file: nodes, queued resources, operations, billing and the clock.

The module only stores and finds data, and is used from one thread. Each API call is one transaction, and so is each
effect of an operation. Each transaction also stores its virtual time, so that the clock does not go back after a
restart. If the disk is full, a transaction that only reads succeeds, but does not store the time.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jupyter_tpu.emulator.resources.records import Span
from jupyter_tpu.emulator.store.nodes import NodeRows
from jupyter_tpu.emulator.store.operations import OperationRows
from jupyter_tpu.emulator.store.queued_resources import QueuedRows
from jupyter_tpu.emulator.store.schema import DiskFull, opened

_log = logging.getLogger(__name__)

PROJECT_FACTS = "project:"
"""Prefix of the keys of values that belong to the emulated project and are deleted with it."""

_VIRTUAL_NOW = "virtual_now"
_LATEST_MOMENT = """
select max(moment) from (
    select max(created) as moment from operations union all select max(ended) from operations
    union all select max(started) from spans union all select max(ended) from spans
)
"""
_CLEARED = ("nodes", "operations", "spans", "queued_resources", "queued_specs", "extras", "requests", "removed_nodes")


class StoreUnreadable(Exception):
    """The file is damaged, was not written by an emulator, or was written by a newer emulator."""


class Store(NodeRows, OperationRows, QueuedRows):
    """The SQLite file. Open it once per process; a file from an older emulator is upgraded.

    Raises:
        StoreUnreadable: the file is damaged or unknown, and is left unchanged.
        DiskFull: the disk is full; the file is left unchanged.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._db = opened(path)
        except DiskFull as error:
            raise DiskFull(f"{path} cannot be written: {error}; free some space and start again.") from error
        except sqlite3.DatabaseError as error:
            raise StoreUnreadable(
                f"{path} cannot be used ({error}); move it away to begin with an empty cloud, "
                "or name another --state-dir."
            ) from error
        self._now: Callable[[], float] | None = None
        self._fill_new_columns()

    def date_by(self, now: Callable[[], float]) -> None:
        """Store the virtual time that `now` returns with every transaction from now on."""
        self._now = now

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Store all changes made in the context, or none. The context must not contain an await.

        Raises:
            DiskFull: none of the changes was stored.
        """
        # take the write lock at the start, because every transaction writes at least the time
        self._db.execute("begin immediate")
        changes = self._db.total_changes
        try:
            yield
            self._commit(is_reading=self._db.total_changes == changes)
        except BaseException:
            self._roll_back()
            raise

    def _commit(self, *, is_reading: bool) -> None:
        """Save the virtual time and commit. On a full disk, a transaction that only reads still succeeds."""
        try:
            self._save_time()
            self._db.execute("commit")
        except DiskFull as error:
            if not is_reading:
                raise
            _log.warning("The virtual time is not stored: %s", error)
            self._roll_back()

    def _roll_back(self) -> None:
        """Roll back, unless SQLite has already done so."""
        if self._db.in_transaction:
            self._db.execute("rollback")

    def _save_time(self) -> None:
        if self._now is not None:
            self.save_fact(_VIRTUAL_NOW, repr(self._now()))

    def _fill_new_columns(self) -> None:
        """Fill the new columns of nodes stored by an older emulator, from their bodies."""
        # the column is empty only in rows that were written before it was added
        rows = self._db.execute("select name from nodes where accelerator_type = ''").fetchall()
        for (name,) in rows:
            node = self.node(str(name))
            # save the row again below: an update keeps the columns that are set only at creation
            self._db.execute("delete from nodes where name = ?", (name,))
            self.save_node(node)

    def latest_moment(self) -> float | None:
        """Return the latest stored virtual time; None in a new store."""
        # older emulators did not store the time separately, but the rows have it
        (moment,) = self._db.execute(_LATEST_MOMENT).fetchone()
        stored = self.fact(_VIRTUAL_NOW)  # as text, because SQLite parses such a number with an error in the last bit
        return max((float(each) for each in (moment, stored) if each is not None), default=None)

    def clear(self) -> None:
        """Delete all data of the emulated project; keep the emulator's own values, such as the virtual time."""
        for table in _CLEARED:
            self._db.execute(f"delete from {table}")
        self._db.execute("delete from facts where key like ?", (f"{PROJECT_FACTS}%",))

    # -- facts

    def fact(self, key: str) -> str | None:
        """Return the text that is stored under a key, or None."""
        row = self._db.execute("select value from facts where key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def save_fact(self, key: str, value: str) -> None:
        """Store a text under a key."""
        self._db.execute("insert or replace into facts values (?, ?)", (key, value))

    # -- fields that v2's messages lack

    def extras(self, name: str) -> dict[str, Any]:
        """Return the fields of a node or queued resource that only v2alpha1 has, in camelCase, nested as in REST."""
        row = self._db.execute("select value from extras where name = ?", (name,)).fetchone()
        found: dict[str, Any] = json.loads(row[0]) if row else {}
        return found

    def save_extras(self, name: str, extras: Mapping[str, Any]) -> None:
        """Replace the extras of a node or queued resource."""
        # an empty value gets no row, because most resources have none
        if extras:
            self._db.execute("insert or replace into extras values (?, ?)", (name, json.dumps(extras)))
        else:
            self._db.execute("delete from extras where name = ?", (name,))

    # -- billing spans: a span is an interval in which a node was READY

    def open_span(self, span: Span) -> None:
        """Store the start of a span, an interval in which the node is READY."""
        self._db.execute(
            "insert into spans (uid, name, accelerator_type, zone, spot, nanos_per_hour, started, mode)"
            " values (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                span.uid,
                span.name,
                span.accelerator_type,
                span.zone,
                span.spot,
                span.nanos_per_hour,
                span.started,
                span.mode,
            ),
        )

    def close_span(self, uid: str, ended: float, is_waived: bool) -> None:
        """Set the end of the node's open span, if it has one. If `is_waived` is true, the span costs nothing."""
        self._db.execute(
            "update spans set ended = ?, is_waived = ? where uid = ? and ended is null", (ended, is_waived, uid)
        )

    def open_spans(self, uid: str) -> list[Span]:
        """Return a list with the node's open span. The list is empty if the node is not READY."""
        return self._spans("where uid = ? and ended is null", (uid,))

    def spans(self) -> list[Span]:
        """Return all spans (intervals in which a node was READY), oldest first."""
        return self._spans("", ())

    def _spans(self, where: str, values: tuple[object, ...]) -> list[Span]:
        columns = "uid, name, accelerator_type, zone, spot, nanos_per_hour, started, ended, is_waived, mode"
        rows = self._db.execute(f"select {columns} from spans {where} order by seq", values)
        return [_span_of(row) for row in rows]


def _span_of(row: tuple[Any, ...]) -> Span:
    uid, name, accelerator_type, zone, spot, nanos, started, end, is_waived, mode = row
    return Span(
        uid=str(uid),
        name=str(name),
        accelerator_type=str(accelerator_type),
        zone=str(zone),
        spot=bool(spot),
        nanos_per_hour=nanos,
        started=float(started),
        ended=end,
        is_waived=bool(is_waived),
        mode=str(mode),
    )
