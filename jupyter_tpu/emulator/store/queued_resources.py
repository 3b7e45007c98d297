"""The queued resources in the store, and the nodes that they request."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from jupyter_tpu.emulator.resources.protos import QueuedState, message_class
from jupyter_tpu.emulator.resources.records import QueuedRecord
from jupyter_tpu.emulator.store.holdings import Held, Kind, like
from jupyter_tpu.emulator.store.operations import bytes_of, status_of_bytes

_COLUMNS = "name, zone, state, body, created, wake, valid_from, valid_until, verdict"
_MARKS = ", ".join("?" * len(_COLUMNS.split(",")))
# a queued resource that has nodes isn't counted, because its nodes are
_HELD = """
select specs.zone, accelerator_type, tier, addresses, sum(count)
from queued_specs as specs join queued_resources as queued on queued.name = specs.queued_resource
where not exists (
    select 1 from nodes where nodes.queued_resource = queued.name and nodes.queued_resource != ''
) group by 1, 2, 3, 4
"""


class QueuedRows:
    """The methods of the store for queued resources."""

    _db: sqlite3.Connection

    def add_queued(self, queued: QueuedRecord, specs: Iterable[tuple[Kind, int]]) -> None:
        """Store a new queued resource. `specs` contains the kinds of the requested nodes and the number of each."""
        self._db.execute(f"insert into queued_resources ({_COLUMNS}) values ({_MARKS})", _row_of(queued))
        rows = [(queued.name, _zone_of(queued), *kind, count) for kind, count in specs]
        self._db.executemany("insert into queued_specs values (?, ?, ?, ?, ?, ?)", rows)

    def save_queued(self, queued: QueuedRecord) -> None:
        """Replace a queued resource."""
        query = f"update queued_resources set ({_COLUMNS}) = ({_MARKS}) where name = ?"
        self._db.execute(query, (*_row_of(queued), queued.name))

    def remove_queued(self, name: str) -> None:
        """Delete a queued resource and all data stored with it."""
        self._db.execute("delete from queued_resources where name = ?", (name,))
        self._db.execute("delete from queued_specs where queued_resource = ?", (name,))
        self._db.execute("delete from extras where name = ?", (name,))

    def queued(self, name: str) -> QueuedRecord | None:
        """Return a queued resource, or None."""
        found = self._queued("where name = ?", (name,))
        return found[0] if found else None

    def queued_resources(self, zone: str | None = None, *, after: str = "", limit: int = -1) -> list[QueuedRecord]:
        """Return queued resources of one or all zones whose names come after `after`, by name; `limit` -1 means all."""
        where, values = ("and zone = ?", (zone,)) if zone else ("", ())
        return self._queued(f"where name > ? {where} order by name limit ?", (after, *values, limit))

    def queued_waiting(self) -> list[tuple[float, str]]:
        """Return the resources in WAITING_FOR_RESOURCES, oldest first, each with its earliest provisioning time."""
        query = "select ifnull(valid_from, created), name from queued_resources where state = ? order by seq"
        rows = self._db.execute(query, (int(QueuedState.WAITING_FOR_RESOURCES),))
        return [(float(moment), str(name)) for moment, name in rows]

    def waking_queued(self, limit: int) -> list[tuple[float, str]]:
        """Return the queued resources whose next steps are due first, with the virtual times of these steps."""
        query = "select wake, name from queued_resources where wake is not null order by wake, seq limit ?"
        return [(float(moment), str(name)) for moment, name in self._db.execute(query, (limit,))]

    def held_by_queue(self) -> list[Held]:
        """Count the nodes that queued resources request and that do not exist yet, by zone and kind, for the quotas."""
        return [Held(like(Kind(*kind)), zone, count) for zone, *kind, count in self._db.execute(_HELD)]

    def _queued(self, where: str, values: Sequence[object]) -> list[QueuedRecord]:
        rows = self._db.execute(f"select {_COLUMNS} from queued_resources {where}", values)
        return [_queued_of(row) for row in rows]


def _zone_of(queued: QueuedRecord) -> str:
    return queued.name.split("/")[3]


def _row_of(queued: QueuedRecord) -> tuple[object, ...]:
    return (
        queued.name,
        _zone_of(queued),
        queued.state,
        queued.body.SerializeToString(),
        queued.created,
        queued.wake,
        queued.valid_from,
        queued.valid_until,
        bytes_of(queued.verdict),
    )


def _queued_of(row: tuple[Any, ...]) -> QueuedRecord:
    _, _, _, body, created, wake, valid_from, valid_until, verdict = row
    return QueuedRecord(
        body=message_class("QueuedResource").FromString(body),
        created=float(created),
        wake=wake,
        valid_from=valid_from,
        valid_until=valid_until,
        verdict=status_of_bytes(verdict),
    )
