"""What of the project's quota is allowed, used and left, and what a request would leave. Pure.

No service of Google's tells what is used: it is counted here from the nodes and the queued resources, with what is left
of ended ones, which counts until it is deleted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from jupyter_tpu import accelerators
from jupyter_tpu.models import Node, QueuedResource
from jupyter_tpu.money.quota_ids import Quota, amount_of, quotas_of
from jupyter_tpu.provisioning import takes_preemptible_quota

UNLIMITED = -1
Kind = Literal["node", "queued_resource"]
Key = tuple[Quota, str]
"""A quota and the zone or region it is counted in."""

NODE_HUSKS = frozenset({"STOPPED", "PREEMPTED", "TERMINATED"})
"""States of nodes that compute nothing and count all the same."""
QUEUED_HUSKS = frozenset({"FAILED", "SUSPENDED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLimits:
    """The limits as the cloud told them.

    Attributes:
        values: by quota and place, in the quota's unit; -1 is unlimited. What is not in it is not known.
        source: the service that told them.
        as_of: Unix seconds.
    """

    values: Mapping[Key, int]
    source: str
    as_of: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Something that takes quota: a node, or a queued resource that has no node (yet, or any more).

    Attributes:
        is_preemptible: it counts as such; spot and flex-start do too.
        is_reserved: it takes chips of a reservation, and counts against no quota: no id of one for them is on record.
    """

    name: str
    kind: Kind
    state: str
    zone: str
    accelerator_type: str
    is_preemptible: bool
    is_reserved: bool = False
    count: int = 1

    @property
    def is_husk(self) -> bool:
        """It computes nothing, and counts until it is deleted."""
        return self.state in (NODE_HUSKS if self.kind == "node" else QUEUED_HUSKS)

    @property
    def is_counted(self) -> bool:
        """False where this version does not know the type, so that its use is missing from the sums."""
        return self.is_reserved or accelerators.find_accelerator(self.accelerator_type) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """How much of one quota something takes."""

    held: Held
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """One quota in one place.

    Attributes:
        limit: in the quota's unit; -1 is unlimited; None: not known.
        users: what takes of it, the largest first.
    """

    quota: Quota
    place: str
    limit: int | None
    users: tuple[User, ...] = field(default=())

    @property
    def used(self) -> int:
        return sum(user.amount for user in self.users)

    @property
    def is_unlimited(self) -> bool:
        return self.limit == UNLIMITED

    @property
    def free(self) -> int | None:
        """What is left of it; negative where a limit was lowered below the use; None where no number says."""
        return None if self.limit is None or self.is_unlimited else self.limit - self.used


def held_by_node(node: Node) -> Held:
    return Held(
        name=str(node.name),
        kind="node",
        state=node.state,
        zone=node.name.zone,
        accelerator_type=node.accelerator_type,
        is_preemptible=takes_preemptible_quota(node.provisioning),
        is_reserved=node.reserved,
    )


def held_by_queued(queued: QueuedResource) -> Held:
    return Held(
        name=str(queued.name),
        kind="queued_resource",
        state=queued.state,
        zone=queued.name.zone,
        accelerator_type=queued.accelerator_type,
        is_preemptible=takes_preemptible_quota(queued.provisioning),
        is_reserved=queued.reserved,
        count=max(1, len(queued.node_ids)),
    )


def without_nodes(queued: Iterable[QueuedResource], nodes: Iterable[Node]) -> tuple[QueuedResource, ...]:
    """Those that count themselves; of the others the nodes are there and count."""
    present = {(node.name.zone, node.name.node_id) for node in nodes}
    return tuple(each for each in queued if present.isdisjoint((each.name.zone, node_id) for node_id in each.node_ids))


def holding_of(nodes: Iterable[Node], queued: Iterable[QueuedResource]) -> tuple[Held, ...]:
    """All that takes quota, each once: a queued resource counts until it has a node, and again when it has lost it."""
    listed = tuple(nodes)
    waiting = without_nodes(queued, listed)
    return (*map(held_by_node, listed), *map(held_by_queued, waiting))


def keys_of(held: Held) -> tuple[Key, ...]:
    """What it counts against: nothing on reserved capacity."""
    kind = accelerators.find_accelerator(held.accelerator_type)
    if kind is None or held.is_reserved:
        return ()
    return tuple((quota, quota.place(held.zone)) for quota in quotas_of(kind, is_preemptible=held.is_preemptible))


def amount_held(held: Held) -> int:
    """Of each of its quotas, in their unit; 0 for a type that is not known."""
    kind = accelerators.find_accelerator(held.accelerator_type)
    return amount_of(kind) * held.count if kind else 0


def uses(limits: QuotaLimits | None, holding: Iterable[Held]) -> tuple[QuotaUse, ...]:
    """Every quota that has a known limit or a user, what is used first, then what has a limit above zero."""
    users: defaultdict[Key, list[User]] = defaultdict(list)
    for held in holding:
        for key in keys_of(held):
            users[key].append(User(held=held, amount=amount_held(held)))
    values = limits.values if limits else {}
    found = (_use(key, values, users.get(key, [])) for key in {*values, *users})
    return tuple(sorted(found, key=_rank))


def _use(key: Key, values: Mapping[Key, int], users: list[User]) -> QuotaUse:
    quota, place = key
    ordered = sorted(users, key=lambda user: (-user.amount, user.held.name))
    return QuotaUse(quota=quota, place=place, limit=values.get(key), users=tuple(ordered))


def _rank(use: QuotaUse) -> tuple[object, ...]:
    return (not use.users, use.limit == 0, use.quota.generation, use.place, use.quota.quota_id)


def is_worth_showing(use: QuotaUse) -> bool:
    """Something takes of it, or a number says how much could be taken, in a place that has the generation."""
    has_room = use.limit is None or use.limit > 0
    return bool(use.users) or (has_room and use.quota.is_offered_in(use.place))


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """What a request would leave of one quota.

    Attributes:
        asked: by the request, in the quota's unit.
        is_certain: whether all that uses the quota was seen.
    """

    use: QuotaUse
    asked: int
    is_certain: bool = True

    @property
    def left(self) -> int | None:
        """Negative where it does not fit; None where no number says."""
        return None if self.use.free is None else self.use.free - self.asked

    @property
    def fits(self) -> bool | None:
        """None where nobody can tell: the limit is not known, or what was not seen may use the rest of it."""
        if self.use.is_unlimited:
            return True
        if self.left is None:
            return None
        if self.left < 0:
            return False
        return True if self.is_certain else None


def after(
    request: Held, limits: QuotaLimits | None, holding: Iterable[Held], *, is_complete: bool
) -> tuple[After, ...]:
    """What the request would leave, of each quota that it counts against.

    `holding` is what takes quota now; `is_complete` says whether that is all of it.
    """
    keys = keys_of(request)
    known = {(use.quota, use.place): use for use in uses(limits, holding)}
    return tuple(
        After(
            use=known.get((quota, place)) or QuotaUse(quota=quota, place=place, limit=None),
            asked=amount_held(request),
            is_certain=is_complete,
        )
        for quota, place in keys
    )
