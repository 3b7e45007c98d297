"""The nodes in the store. Values that are needed to count nodes have their own columns, so counting is fast."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from jupyter_tpu.emulator.resources.protos import NodePb, State, new_node_from
from jupyter_tpu.emulator.store.holdings import Held, Kind, kind_of, like

REMEMBERED_S = 86_400
"""How long a removed node can still be listed by a fault, in virtual seconds. Bounds the size of the table."""

_WITHOUT_CHIPS = frozenset({State.DELETING, State.STOPPED, State.PREEMPTED, State.TERMINATED})
_BEFORE_CHIPS = frozenset({State.CREATING, State.STARTING})

# the column `occupies` is true until the node is stopped and releases its chips (see `_occupies`)
_SAVE = """
insert into nodes (name, zone, body, state, accelerator_type, tier, addresses, occupies, queued_resource)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (name) do update set
    body = excluded.body, state = excluded.state, addresses = excluded.addresses,
    occupies = coalesce(excluded.occupies, occupies)
"""
_KINDS = "select zone, accelerator_type, tier, addresses, count(*) from nodes {where} group by 1, 2, 3, 4"


class NodeRows:
    """The methods of the store for nodes. A node is always written as a whole."""

    _db: sqlite3.Connection

    def node(self, name: str) -> NodePb | None:
        """Return a node, or None."""
        row = self._db.execute("select body from nodes where name = ?", (name,)).fetchone()
        return None if row is None else new_node_from(row[0])

    def nodes(self, zone: str | None = None, *, after: str = "", limit: int = -1) -> list[NodePb]:
        """Return the nodes of one or all zones whose names come after `after`, sorted by name.

        A `limit` of -1 means no limit.
        """
        where, values = ("and zone = ?", (zone,)) if zone else ("", ())
        query = f"select body from nodes where name > ? {where} order by name limit ?"
        return _nodes_of(self._db.execute(query, (after, *values, limit)))

    def nodes_of_queued(self, queued_resource: str) -> list[NodePb]:
        """Return the existing nodes that a queued resource created, sorted by name."""
        query = "select body from nodes where queued_resource = ? order by name"
        return _nodes_of(self._db.execute(query, (queued_resource,)))

    def queued_resource_of(self, name: str) -> str:
        """Return the name of the queued resource that created a node; empty if none did."""
        row = self._db.execute("select queued_resource from nodes where name = ?", (name,)).fetchone()
        return "" if row is None else str(row[0])

    def save_node(self, node: NodePb, *, queued_resource: str = "", is_flex: bool = False) -> None:
        """Create or replace a node; `queued_resource` and `is_flex` are used only for a new node."""
        kind = kind_of(node, is_flex=is_flex)
        zone = node.name.split("/")[3]
        row = (node.name, zone, node.SerializeToString(), node.state, *kind, _occupies(node), queued_resource)
        self._db.execute(_SAVE, row)

    def place_node(self, name: str) -> None:
        """Record that the node occupies chips from now on."""
        self._db.execute("update nodes set occupies = 1 where name = ?", (name,))

    def remove_node(self, name: str, moment: float = 0.0) -> None:
        """Delete the node and its fields in `extras`. For one more day, `removed_nodes` returns the node."""
        # prune here, because the table grows only with removals
        self._db.execute("delete from removed_nodes where moment < ?", (moment - REMEMBERED_S,))
        self._db.execute(
            "insert or replace into removed_nodes select name, zone, body, ? from nodes where name = ?", (moment, name)
        )
        self._db.execute("delete from nodes where name = ?", (name,))
        self._db.execute("delete from extras where name = ?", (name,))

    def removed_nodes(self, since: float) -> list[NodePb]:
        """Return the nodes that were removed at this virtual time or later, by name."""
        query = "select body from removed_nodes where moment >= ? order by name"
        return _nodes_of(self._db.execute(query, (since,)))

    # -- resources held by nodes

    def held_nodes(self) -> list[Held]:
        """Return the number of nodes of each kind. Nodes in all states are included: all count against the quota."""
        return _held(self._db.execute(_KINDS.format(where="")))

    def occupying_nodes(self) -> list[Held]:
        """Return the number of nodes of each kind that occupy chips."""
        return _held(self._db.execute(_KINDS.format(where="where occupies = 1")))

    # -- nodes that expire

    def set_expiry(self, name: str, moment: float | None) -> None:
        """Set the time at which a node expires; None means never."""
        self._db.execute("update nodes set expires = ? where name = ?", (moment, name))

    def expiring_nodes(self, limit: int) -> list[tuple[float, str]]:
        """Return the nodes that expire next, with their times of expiry."""
        query = "select expires, name from nodes where expires is not null order by expires limit ?"
        return [(float(moment), str(name)) for moment, name in self._db.execute(query, (limit,))]


def _occupies(node: NodePb) -> int | None:
    """Return whether a node in this state occupies chips.

    None means that the stored value stays unchanged, because this state does not show whether chips have been found.
    """
    if node.state in _BEFORE_CHIPS:
        return None
    return int(node.state not in _WITHOUT_CHIPS)


def _nodes_of(rows: Iterable[tuple[bytes]]) -> list[NodePb]:
    return [new_node_from(row[0]) for row in rows]


def _held(rows: Iterable[tuple[str, str, str, int, int]]) -> list[Held]:
    return [
        Held(like(Kind(accelerator_type, tier, addresses)), zone, count)
        for zone, accelerator_type, tier, addresses, count in rows
    ]
