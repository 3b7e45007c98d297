"""What must outlive the emulator's process: nodes, operations, billing spans and the clock, in SQLite.

Stores and finds, decides nothing. Used from one thread; a call of the API is one transaction, and so is an effect.
Each transaction also stores the virtual time at which it was made, so that no restart goes back behind it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from google.rpc import status_pb2

from jupyter_tpu.emulator.protos import NodePb, new_node_from

_SCHEMA = """
create table if not exists nodes (
    name text primary key, zone text not null, body blob not null
);
create table if not exists operations (
    seq integer primary key autoincrement, name text unique not null, zone text not null,
    verb text not null, target text not null, created real not null,
    due real, stuck integer not null, verdict blob, state_before integer not null,
    cancel_requested integer not null, ended real, error blob, response blob
);
create index if not exists operations_due on operations (due) where due is not null;
create table if not exists spans (
    seq integer primary key autoincrement, uid text not null, name text not null, accelerator_type text not null,
    zone text not null, spot integer not null, nanos_per_hour integer,
    started real not null, ended real, is_waived integer not null default 0
);
create table if not exists facts (key text primary key, value text not null);
"""
_VIRTUAL_NOW = "virtual_now"
_LATEST_MOMENT = f"""
select max(moment) from (
    select cast(value as real) as moment from facts where key = '{_VIRTUAL_NOW}'
    union all select max(created) from operations union all select max(ended) from operations
    union all select max(started) from spans union all select max(ended) from spans
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRecord:
    """A long-running operation.

    Attributes:
        due: virtual moment at which its effect happens; None once it happened or was cancelled.
        is_stuck: a fault: the effect happens, but the operation is never reported as done.
        verdict: a fault or a stock-out that will end it; None when it will succeed.
        state_before: the node's state to go back to when the operation fails; 0 when there was no node.
        ended, error, response: set when it is done; `response` is a serialised ``google.protobuf.Any``.
    """

    name: str
    zone: str
    verb: str
    target: str
    created: float
    due: float | None
    is_stuck: bool = False
    verdict: status_pb2.Status | None = None
    state_before: int = 0
    is_cancel_requested: bool = False
    ended: float | None = None
    error: status_pb2.Status | None = None
    response: bytes | None = None

    @property
    def is_done(self) -> bool:
        return self.ended is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time during which a node was READY; `ended` is None while it still is."""

    uid: str
    name: str
    accelerator_type: str
    zone: str
    spot: bool
    nanos_per_hour: int | None
    started: float
    ended: float | None = None
    is_waived: bool = False


class StoreUnreadable(Exception):
    """The file is damaged, or none of ours."""


class Store:
    """One SQLite file. Open it once per process.

    Raises:
        StoreUnreadable: the file stays as it is.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._db = _opened(path)
        except sqlite3.DatabaseError as error:
            raise StoreUnreadable(
                f"{path} cannot be used ({error}); move it away to begin with an empty cloud, "
                "or name another --state-dir."
            ) from error
        self._now: Callable[[], float] | None = None

    def date_by(self, now: Callable[[], float]) -> None:
        """From here on, every transaction stores this clock's time."""
        self._now = now

    def close(self) -> None:
        self._db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; must not be held over an await."""
        self._db.execute("begin immediate")
        try:
            yield
            self._save_time()
        except BaseException:
            self._db.execute("rollback")
            raise
        self._db.execute("commit")

    def _save_time(self) -> None:
        if self._now is not None:
            self.save_fact(_VIRTUAL_NOW, repr(self._now()))

    def latest_moment(self) -> float | None:
        """The latest virtual time that is stored anywhere; None in a new store."""
        (moment,) = self._db.execute(_LATEST_MOMENT).fetchone()
        return None if moment is None else float(moment)

    def clear(self) -> None:
        """Forget everything but the facts."""
        for table in ("nodes", "operations", "spans"):
            self._db.execute(f"delete from {table}")

    # -- facts

    def fact(self, key: str) -> str | None:
        row = self._db.execute("select value from facts where key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def save_fact(self, key: str, value: str) -> None:
        self._db.execute("insert or replace into facts values (?, ?)", (key, value))

    # -- nodes

    def node(self, name: str) -> NodePb | None:
        row = self._db.execute("select body from nodes where name = ?", (name,)).fetchone()
        return None if row is None else new_node_from(row[0])

    def nodes(self, zone: str | None = None, *, after: str = "", limit: int = -1) -> list[NodePb]:
        """Nodes of all zones, or of one, by name, beginning after a name; -1 means no limit."""
        where, values = ("and zone = ?", (zone,)) if zone else ("", ())
        query = f"select body from nodes where name > ? {where} order by name limit ?"
        rows = self._db.execute(query, (after, *values, limit))
        return [new_node_from(row[0]) for row in rows]

    def save_node(self, node: NodePb) -> None:
        zone = node.name.split("/")[3]
        self._db.execute("insert or replace into nodes values (?, ?, ?)", (node.name, zone, node.SerializeToString()))

    def remove_node(self, name: str) -> None:
        self._db.execute("delete from nodes where name = ?", (name,))

    # -- operations

    def add_operation(self, operation: OperationRecord) -> None:
        row = _operation_row(operation)
        marks = ", ".join("?" * len(row))
        self._db.execute(f"insert into operations values (null, {marks})", row)

    def save_operation(self, operation: OperationRecord) -> None:
        self._db.execute(
            "update operations set (name, zone, verb, target, created, due, stuck, verdict, state_before,"
            " cancel_requested, ended, error, response) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) where name = ?",
            (*_operation_row(operation), operation.name),
        )

    def remove_operation(self, name: str) -> None:
        self._db.execute("delete from operations where name = ?", (name,))

    def operation(self, name: str) -> OperationRecord | None:
        found = self._operations("where name = ?", (name,))
        return found[0] if found else None

    def operations(self, zone: str | None = None) -> list[OperationRecord]:
        """All operations, or those of one zone, oldest first."""
        return self._operations("where zone = ?", (zone,)) if zone else self._operations("", ())

    def operations_in_flight(self, target: str) -> list[OperationRecord]:
        return self._operations("where target = ? and due is not null", (target,))

    def all_in_flight(self) -> list[OperationRecord]:
        return self._operations("where due is not null", ())

    def _operations(self, where: str, values: Sequence[object]) -> list[OperationRecord]:
        rows = self._db.execute(f"select * from operations {where} order by seq", values)
        return [_operation_of(row) for row in rows]

    # -- billing spans

    def open_span(self, span: Span) -> None:
        self._db.execute(
            "insert into spans (uid, name, accelerator_type, zone, spot, nanos_per_hour, started)"
            " values (?, ?, ?, ?, ?, ?, ?)",
            (span.uid, span.name, span.accelerator_type, span.zone, span.spot, span.nanos_per_hour, span.started),
        )

    def close_span(self, uid: str, ended: float, is_waived: bool) -> None:
        self._db.execute(
            "update spans set ended = ?, is_waived = ? where uid = ? and ended is null", (ended, is_waived, uid)
        )

    def spans(self) -> list[Span]:
        """All spans, oldest first."""
        return [_span_of(row) for row in self._db.execute("select * from spans order by seq")]


def _opened(path: Path) -> sqlite3.Connection:
    with contextlib.ExitStack() as on_failure:
        db = sqlite3.connect(path, isolation_level=None)
        on_failure.callback(db.close)
        db.execute("pragma journal_mode = wal")
        db.execute("pragma synchronous = normal")
        db.executescript(_SCHEMA)
        (verdict,) = db.execute("pragma quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        on_failure.pop_all()
    return db


def ended(
    operation: OperationRecord,
    now: float,
    *,
    error: status_pb2.Status | None = None,
    response: bytes | None = None,
) -> OperationRecord:
    """The operation after its effect happened; a stuck one stays undone for ever."""
    if operation.is_stuck and error is None:
        return replace(operation, due=None)
    return replace(operation, due=None, ended=now, error=error, response=response)


def _operation_row(operation: OperationRecord) -> tuple[object, ...]:
    return (
        operation.name,
        operation.zone,
        operation.verb,
        operation.target,
        operation.created,
        operation.due,
        operation.is_stuck,
        operation.verdict.SerializeToString() if operation.verdict else None,
        operation.state_before,
        operation.is_cancel_requested,
        operation.ended,
        operation.error.SerializeToString() if operation.error else None,
        operation.response,
    )


def _operation_of(row: tuple[Any, ...]) -> OperationRecord:
    _, name, zone, verb, target, created, due, stuck, verdict, before, cancel_requested, end, error, response = row
    return OperationRecord(
        name=str(name),
        zone=str(zone),
        verb=str(verb),
        target=str(target),
        created=float(created),
        due=due,
        is_stuck=bool(stuck),
        verdict=_status_of(verdict),
        state_before=before,
        is_cancel_requested=bool(cancel_requested),
        ended=end,
        error=_status_of(error),
        response=response,
    )


def _status_of(blob: object) -> status_pb2.Status | None:
    return status_pb2.Status.FromString(blob) if isinstance(blob, bytes) else None


def _span_of(row: tuple[Any, ...]) -> Span:
    _, uid, name, accelerator_type, zone, spot, nanos, started, end, is_waived = row
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
    )
