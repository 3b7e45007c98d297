"""What must outlive the emulator's process: nodes, queued resources, operations, billing and the clock, in SQLite.

Stores and finds, decides nothing. Used from one thread; a call of the API is one transaction, and so is an effect.
Each transaction also stores the virtual time at which it was made, so that no restart goes back behind it; on a full
disk one that only reads goes without.
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
"""Facts whose keys begin so belong to the emulated project, and are forgotten with it."""

_VIRTUAL_NOW = "virtual_now"
_LATEST_MOMENT = """
select max(moment) from (
    select max(created) as moment from operations union all select max(ended) from operations
    union all select max(started) from spans union all select max(ended) from spans
)
"""
_CLEARED = ("nodes", "operations", "spans", "queued_resources", "queued_specs", "extras", "requests", "removed_nodes")


class StoreUnreadable(Exception):
    """The file is damaged, none of ours, or of a newer emulator."""


class Store(NodeRows, OperationRows, QueuedRows):
    """One SQLite file. Open it once per process; one of an older emulator gets what it lacks.

    Raises:
        StoreUnreadable: the file stays as it is.
        DiskFull: so it does; there is no room to go on.
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
        """From here on, every transaction stores this clock's time."""
        self._now = now

    def close(self) -> None:
        self._db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; must not be held over an await.

        Raises:
            DiskFull: nothing was stored of what was changed.
        """
        self._db.execute("begin immediate")
        changes = self._db.total_changes
        try:
            yield
            self._commit(is_reading=self._db.total_changes == changes)
        except BaseException:
            self._roll_back()
            raise

    def _commit(self, *, is_reading: bool) -> None:
        """A read must not fail because the time cannot be stored."""
        try:
            self._save_time()
            self._db.execute("commit")
        except DiskFull as error:
            if not is_reading:
                raise
            _log.warning("The virtual time is not stored: %s", error)
            self._roll_back()

    def _roll_back(self) -> None:
        """SQLite may have done so by itself."""
        if self._db.in_transaction:
            self._db.execute("rollback")

    def _save_time(self) -> None:
        if self._now is not None:
            self.save_fact(_VIRTUAL_NOW, repr(self._now()))

    def _fill_new_columns(self) -> None:
        """Nodes that an older emulator has stored tell in their columns what they are."""
        rows = self._db.execute("select name from nodes where accelerator_type = ''").fetchall()
        for (name,) in rows:
            node = self.node(str(name))
            self._db.execute("delete from nodes where name = ?", (name,))
            self.save_node(node)

    def latest_moment(self) -> float | None:
        """The latest virtual time that is stored anywhere; None in a new store."""
        (moment,) = self._db.execute(_LATEST_MOMENT).fetchone()
        told = self.fact(_VIRTUAL_NOW)  # as text, because SQLite reads a number from it with an error in the last bit
        return max((float(each) for each in (moment, told) if each is not None), default=None)

    def clear(self) -> None:
        """Forget the project: everything but the facts that are about the emulator itself."""
        for table in _CLEARED:
            self._db.execute(f"delete from {table}")
        self._db.execute("delete from facts where key like ?", (f"{PROJECT_FACTS}%",))

    # -- facts

    def fact(self, key: str) -> str | None:
        row = self._db.execute("select value from facts where key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def save_fact(self, key: str, value: str) -> None:
        self._db.execute("insert or replace into facts values (?, ?)", (key, value))

    # -- what v2's messages cannot say

    def extras(self, name: str) -> dict[str, Any]:
        """Fields of a node or queued resource that only v2alpha1 has, in camelCase, nested as in REST."""
        row = self._db.execute("select value from extras where name = ?", (name,)).fetchone()
        found: dict[str, Any] = json.loads(row[0]) if row else {}
        return found

    def save_extras(self, name: str, extras: Mapping[str, Any]) -> None:
        if extras:
            self._db.execute("insert or replace into extras values (?, ?)", (name, json.dumps(extras)))
        else:
            self._db.execute("delete from extras where name = ?", (name,))

    # -- billing spans

    def open_span(self, span: Span) -> None:
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
        self._db.execute(
            "update spans set ended = ?, is_waived = ? where uid = ? and ended is null", (ended, is_waived, uid)
        )

    def open_spans(self, uid: str) -> list[Span]:
        """The span of a node that is READY now."""
        return self._spans("where uid = ? and ended is null", (uid,))

    def spans(self) -> list[Span]:
        """All spans, oldest first."""
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
