"""Compute how many of each grant's chips the current nodes use, and how many are free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from jupyter_tpu.accelerators import find_accelerator
from jupyter_tpu.models import Node
from jupyter_tpu.money.grants import Grant, GrantRow
from jupyter_tpu.provisioning import is_grantable

RowKey = tuple[str, int]
"""A row of a grant: the grant's name and the row's index in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotment:
    """How many chips of each row of the grants are in use.

    Attributes:
        used: chips in use; rows without used chips are omitted.
        unknown: rows whose usage is unknown, with the reason.
    """

    used: Mapping[RowKey, int] = field(default_factory=dict)
    unknown: Mapping[RowKey, str] = field(default_factory=dict)

    def used_of(self, grant: Grant, number: int) -> int | None:
        """Return how many chips of row `number` of a grant are in use, or None if unknown."""
        place = (grant.name, number)
        return None if place in self.unknown else self.used.get(place, 0)

    def free_of(self, grant: Grant, number: int) -> int | None:
        """Return how many chips of row `number` of a grant are free, or None if unknown."""
        used = self.used_of(grant, number)
        return None if used is None else max(0, grant.rows[number].chips - used)


def allot(
    grants: Iterable[Grant], nodes: Iterable[Node] | None, *, today: int, unreachable: Iterable[str] = ()
) -> Allotment:
    """Assign each node, oldest first, to the first matching row of a grant with enough free chips.

    Stopped and pre-empted nodes count too, because they use quota until they are deleted.

    Args:
        nodes: the current nodes; None if unknown.
        today: the day as a number, see `days`.
        unreachable: zones whose nodes are missing from `nodes`.
    """
    places = [(grant, number) for grant in grants if grant.holds(today) for number in range(len(grant.rows))]
    if nodes is None:
        return Allotment(unknown={(grant.name, number): "the nodes are not listed yet" for grant, number in places})
    # count the oldest nodes first, so that a new node never takes coverage from a running node
    listed, missing = sorted(nodes, key=_age), set(unreachable)
    used: Counter[RowKey] = Counter()
    for node in listed:
        if is_grantable(node.provisioning):
            assign(places, used, node.accelerator_type, node.name.zone, node.spot or node.preemptible)
    unknown = {(grant.name, number): _why_unknown(grant.rows[number], listed, missing) for grant, number in places}
    return Allotment(used=dict(used), unknown={place: why for place, why in unknown.items() if why})


def is_for(row: GrantRow, accelerator_type: str, zone: str, spot: bool) -> bool:
    """Return whether a grant's row covers nodes with these properties. Does not check whether chips are left."""
    kind = find_accelerator(accelerator_type)
    same = kind is not None and (row.generation, row.zone, row.spot) == (kind.generation, zone, spot)
    return same and row.device in ("", accelerator_type)


def assign(
    places: Iterable[tuple[Grant, int]], used: Counter[RowKey], accelerator_type: str, zone: str, spot: bool
) -> bool:
    """Assign a node to the first matching row with enough free chips for the whole node; update `used`.

    Returns:
        Whether the node was assigned.
    """
    kind = find_accelerator(accelerator_type)
    for grant, number in places:
        row, place = grant.rows[number], (grant.name, number)
        if kind and is_for(row, accelerator_type, zone, spot) and used[place] + kind.chips <= row.chips:
            used[place] += kind.chips
            return True
    return False


def _age(node: Node) -> tuple[str, str]:
    return (node.create_time or "9", str(node.name))  # a node without a date counts as the newest


def _why_unknown(row: GrantRow, nodes: list[Node], missing: set[str]) -> str:
    if row.zone in missing:
        return f"{row.zone} did not respond"
    # a node of an unknown type may be of this generation and may use any number of chips
    unknown = (node for node in nodes if node.name.zone == row.zone and not find_accelerator(node.accelerator_type))
    first = next(unknown, None)
    return f"the type of {first.name.node_id} is unknown" if first else ""
