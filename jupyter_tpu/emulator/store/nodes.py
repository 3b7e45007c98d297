"""The store's nodes, with what is asked of many of them at once in columns of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from jupyter_tpu.emulator.resources.protos import NodePb, State, new_node_from
from jupyter_tpu.emulator.store.holdings import Held, Kind, kind_of, like

REMEMBERED_S = 86_400
"""How long a removed node can still be shown."""

_WITHOUT_CHIPS = frozenset({State.DELETING, State.STOPPED, State.PREEMPTED, State.TERMINATED})
_BEFORE_CHIPS = frozenset({State.CREATING, State.STARTING})

_SAVE = """
insert into nodes (name, zone, body, state, accelerator_type, tier, addresses, occupies, queued_resource)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (name) do update set
    body = excluded.body, state = excluded.state, addresses = excluded.addresses,
    occupies = coalesce(excluded.occupies, occupies)
"""
_KINDS = "select zone, accelerator_type, tier, addresses, count(*) from nodes {where} group by 1, 2, 3, 4"


class NodeRows:
    """The part of the store that is about nodes; a node is written whole."""

    _db: sqlite3.Connection

    def node(self, name: str) -> NodePb | None:
        row = self._db.execute("select body from nodes where name = ?", (name,)).fetchone()
        return None if row is None else new_node_from(row[0])

    def nodes(self, zone: str | None = None, *, after: str = "", limit: int = -1) -> list[NodePb]:
        """Nodes of all zones, or of one, by name, beginning after a name; -1 means no limit."""
        where, values = ("and zone = ?", (zone,)) if zone else ("", ())
        query = f"select body from nodes where name > ? {where} order by name limit ?"
        return _nodes_of(self._db.execute(query, (after, *values, limit)))

    def nodes_of_queued(self, queued_resource: str) -> list[NodePb]:
        """The nodes that a queued resource has made and that are still there, by name."""
        query = "select body from nodes where queued_resource = ? order by name"
        return _nodes_of(self._db.execute(query, (queued_resource,)))

    def queued_resource_of(self, name: str) -> str:
        """Name of the queued resource that made a node; empty when none did."""
        row = self._db.execute("select queued_resource from nodes where name = ?", (name,)).fetchone()
        return "" if row is None else str(row[0])

    def save_node(self, node: NodePb, *, queued_resource: str = "", is_flex: bool = False) -> None:
        """`queued_resource` and `is_flex` count when the node is saved for the first time only."""
        kind = kind_of(node, is_flex=is_flex)
        zone = node.name.split("/")[3]
        row = (node.name, zone, node.SerializeToString(), node.state, *kind, _occupies(node), queued_resource)
        self._db.execute(_SAVE, row)

    def place_node(self, name: str) -> None:
        """From now on the node occupies chips."""
        self._db.execute("update nodes set occupies = 1 where name = ?", (name,))

    def remove_node(self, name: str, moment: float = 0.0) -> None:
        """The node is gone; `removed_nodes` still knows it for a day."""
        self._db.execute("delete from removed_nodes where moment < ?", (moment - REMEMBERED_S,))
        self._db.execute(
            "insert or replace into removed_nodes select name, zone, body, ? from nodes where name = ?", (moment, name)
        )
        self._db.execute("delete from nodes where name = ?", (name,))
        self._db.execute("delete from extras where name = ?", (name,))

    def removed_nodes(self, since: float) -> list[NodePb]:
        """Nodes that were removed at that moment or later, by name."""
        query = "select body from removed_nodes where moment >= ? order by name"
        return _nodes_of(self._db.execute(query, (since,)))

    def node_count(self) -> int:
        (count,) = self._db.execute("select count(*) from nodes").fetchone()
        return int(count)

    # -- what nodes hold

    def held_nodes(self) -> list[Held]:
        """All nodes, in whatever state, by kind: they all count against the quota until they are deleted."""
        return _held(self._db.execute(_KINDS.format(where="")))

    def occupying_nodes(self) -> list[Held]:
        """The nodes that occupy chips, by kind."""
        return _held(self._db.execute(_KINDS.format(where="where occupies = 1")))

    # -- nodes that end by themselves

    def set_expiry(self, name: str, moment: float | None) -> None:
        self._db.execute("update nodes set expires = ? where name = ?", (moment, name))

    def expiring_nodes(self, limit: int) -> list[tuple[float, str]]:
        """The next nodes to end by themselves, and when."""
        query = "select expires, name from nodes where expires is not null order by expires limit ?"
        return [(float(moment), str(name)) for moment, name in self._db.execute(query, (limit,))]


def _occupies(node: NodePb) -> int | None:
    """None leaves it as it was: a node on its way up has chips once they were found for it."""
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
