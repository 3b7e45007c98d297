"""Which of the granted chips the present nodes use, and which are free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from jupyter_tpu.accelerators import find_accelerator
from jupyter_tpu.models import Node
from jupyter_tpu.money.grants import Grant, GrantRow
from jupyter_tpu.provisioning import is_grantable

Place = tuple[str, int]
"""A grant's name and the number of the row in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotment:
    """What is used of each row.

    Attributes:
        used: chips; rows that nobody uses are left out.
        unknown: rows of which nobody knows, with the reason.
    """

    used: Mapping[Place, int] = field(default_factory=dict)
    unknown: Mapping[Place, str] = field(default_factory=dict)

    def used_of(self, grant: Grant, number: int) -> int | None:
        """Chips in use; None where that is not known."""
        place = (grant.name, number)
        return None if place in self.unknown else self.used.get(place, 0)

    def free_of(self, grant: Grant, number: int) -> int | None:
        """Chips still free; None where that is not known."""
        used = self.used_of(grant, number)
        return None if used is None else max(0, grant.rows[number].chips - used)


def allot(
    grants: Iterable[Grant], nodes: Iterable[Node] | None, *, today: int, unreachable: Iterable[str] = ()
) -> Allotment:
    """Give each node, the oldest first, to the first row that is for it and has room for all of it.

    Stopped and pre-empted nodes count too: they hold quota until they are deleted. `nodes` is None while nobody knows
    them; `unreachable` are zones whose nodes are missing.
    """
    places = [(grant, number) for grant in grants if grant.holds(today) for number in range(len(grant.rows))]
    if nodes is None:
        return Allotment(unknown={(grant.name, number): "the nodes are not known yet" for grant, number in places})
    listed, missing = sorted(nodes, key=_age), set(unreachable)
    used: Counter[Place] = Counter()
    for node in listed:
        if is_grantable(node.provisioning):
            give(places, used, node.accelerator_type, node.name.zone, node.spot or node.preemptible)
    unknown = {(grant.name, number): _why_unknown(grant.rows[number], listed, missing) for grant, number in places}
    return Allotment(used=dict(used), unknown={place: why for place, why in unknown.items() if why})


def is_for(row: GrantRow, accelerator_type: str, zone: str, spot: bool) -> bool:
    """Whether a row is for such a node, however many chips are free."""
    kind = find_accelerator(accelerator_type)
    same = kind is not None and (row.generation, row.zone, row.spot) == (kind.generation, zone, spot)
    return same and row.device in ("", accelerator_type)


def give(
    places: Iterable[tuple[Grant, int]], used: Counter[Place], accelerator_type: str, zone: str, spot: bool
) -> bool:
    """Give a node to the first row that is for it and has room for all of it; whether there was one."""
    kind = find_accelerator(accelerator_type)
    for grant, number in places:
        row, place = grant.rows[number], (grant.name, number)
        if kind and is_for(row, accelerator_type, zone, spot) and used[place] + kind.chips <= row.chips:
            used[place] += kind.chips
            return True
    return False


def _age(node: Node) -> tuple[str, str]:
    return (node.create_time or "9", str(node.name))  # one that the cloud has not dated is the newest


def _why_unknown(row: GrantRow, nodes: list[Node], missing: set[str]) -> str:
    if row.zone in missing:
        return f"{row.zone} did not answer"
    riddles = (node for node in nodes if node.name.zone == row.zone and not find_accelerator(node.accelerator_type))
    riddle = next(riddles, None)
    return f"the type of {riddle.name.node_id} is not known" if riddle else ""
