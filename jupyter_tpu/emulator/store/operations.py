"""The operations in the store, and the requests that started them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from google.rpc import status_pb2

from jupyter_tpu.emulator.resources.records import OperationRecord

_COLUMNS = (
    "name, zone, verb, target, created, due, stuck, verdict, state_before, cancel_requested, ended, error, response,"
    " version, ready_at"
)
_MARKS = ", ".join("?" * len(_COLUMNS.split(",")))


class OperationRows:
    """The store's methods for reading and writing operations."""

    _db: sqlite3.Connection

    def add_operation(self, operation: OperationRecord) -> None:
        """Store a new operation."""
        self._db.execute(f"insert into operations ({_COLUMNS}) values ({_MARKS})", _row_of(operation))

    def save_operation(self, operation: OperationRecord) -> None:
        """Save a changed operation."""
        query = f"update operations set ({_COLUMNS}) = ({_MARKS}) where name = ?"
        self._db.execute(query, (*_row_of(operation), operation.name))

    def remove_operation(self, name: str) -> None:
        """Delete an operation."""
        self._db.execute("delete from operations where name = ?", (name,))

    def operation(self, name: str) -> OperationRecord | None:
        """Return an operation, or None."""
        found = self._operations("where name = ?", (name,))
        return found[0] if found else None

    def operations(self, zone: str | None = None, *, after: str = "", limit: int = -1) -> list[OperationRecord]:
        """Return the operations of a zone (default: all zones), sorted by name.

        Args:
            after: only operations with names after this name are returned.
            limit: the maximum number of operations; -1 means no limit.
        """
        where, values = ("and zone = ?", (zone,)) if zone else ("", ())
        return self._operations(f"where name > ? {where} order by name limit ?", (after, *values, limit))

    def operations_in_flight(self, target: str) -> list[OperationRecord]:
        """Return the operations of one target that have not taken effect yet."""
        return self._operations("where target = ? and ended is null and due is not null order by seq", (target,))

    def operations_undone(self, target: str) -> list[OperationRecord]:
        """Return the operations of one target that are not done yet."""
        return self._operations("where target = ? and ended is null order by seq", (target,))

    def next_due(self, limit: int) -> list[tuple[float, str, str]]:
        """Return the time, name and target of each of the next operations that will take effect."""
        query = "select due, name, target from operations where due is not null order by due, seq limit ?"
        return [(float(due), str(name), str(target)) for due, name, target in self._db.execute(query, (limit,))]

    def _operations(self, where: str, values: Sequence[object]) -> list[OperationRecord]:
        rows = self._db.execute(f"select {_COLUMNS} from operations {where}", values)
        return [_operation_of(row) for row in rows]

    # -- requests that may be sent again

    def remember_request(self, request_id: str, method: str, target: str, operation: str) -> None:
        """Store which operation a request started."""
        row = (request_id, method, target, operation)
        self._db.execute("insert or replace into requests values (?, ?, ?, ?)", row)

    def operation_of_request(self, request_id: str, method: str, target: str) -> OperationRecord | None:
        """Return the operation that this request has already started, or None."""
        query = "select operation from requests where request_id = ? and method = ? and target = ?"
        row = self._db.execute(query, (request_id, method, target)).fetchone()
        return None if row is None else self.operation(str(row[0]))


def _row_of(operation: OperationRecord) -> tuple[object, ...]:
    return (
        operation.name,
        operation.zone,
        operation.verb,
        operation.target,
        operation.created,
        operation.due,
        operation.is_stuck,
        bytes_of(operation.verdict),
        operation.state_before,
        operation.is_cancel_requested,
        operation.ended,
        bytes_of(operation.error),
        operation.response,
        operation.version,
        operation.ready_at,
    )


def _operation_of(row: tuple[Any, ...]) -> OperationRecord:
    name, zone, verb, target, created, due, stuck, verdict, before, cancel_requested, end, error, response = row[:13]
    return OperationRecord(
        name=str(name),
        zone=str(zone),
        verb=str(verb),
        target=str(target),
        created=float(created),
        due=due,
        is_stuck=bool(stuck),
        verdict=status_of_bytes(verdict),
        state_before=before,
        is_cancel_requested=bool(cancel_requested),
        ended=end,
        error=status_of_bytes(error),
        response=response,
        version=str(row[13]),
        ready_at=row[14],
    )


def bytes_of(status: status_pb2.Status | None) -> bytes | None:
    """Encode a status for storage."""
    return None if status is None else bytes(status.SerializeToString())


def status_of_bytes(blob: object) -> status_pb2.Status | None:
    """Decode a status that `bytes_of` encoded."""
    return status_pb2.Status.FromString(blob) if isinstance(blob, bytes) else None
