"""The limits and usage of the project's TPU quota, and the remaining quota now and after a request. Pure.

No Google service reports usage, so it is calculated from the nodes and the queued resources. Leftovers (pre-empted
nodes, finished queued resources) and stopped nodes count until they are deleted.
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

UNLIMITED = -1  # the value that Service Usage and Cloud Quotas use
Kind = Literal["node", "queued_resource"]
Key = tuple[Quota, str]
"""A quota, and the zone or region in which it is counted."""

LEFTOVER_NODE_STATES = frozenset({"PREEMPTED", "TERMINATED"})
"""States of nodes that can only be deleted but still use quota.

A STOPPED node is not a leftover, because its disk is kept.
"""
LEFTOVER_QUEUED_STATES = frozenset({"FAILED", "SUSPENDED"})
"""States of queued resources that are finished but still use quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLimits:
    """The limits that the cloud reported.

    Attributes:
        values: limits in the quota's unit, by quota and place; -1 means unlimited, and a missing limit is unknown.
        source: the service that reported them.
        as_of: when the limits were reported (Unix seconds).
    """

    values: Mapping[Key, int]
    source: str
    as_of: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaHolder:
    """A user of quota: a node, or a queued resource that currently has no node.

    Attributes:
        is_preemptible: whether it counts against preemptible quota, as spot and flex-start nodes do.
        is_reserved: whether it uses reserved chips, which count against no known quota.
        count: the number of nodes that it represents.
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
    def is_leftover(self) -> bool:
        """Whether this is a leftover, which can only be deleted and uses quota until then."""
        return self.state in (LEFTOVER_NODE_STATES if self.kind == "node" else LEFTOVER_QUEUED_STATES)

    @property
    def is_counted(self) -> bool:
        """Whether the amount in use is included in the sums. If the accelerator type is unknown, it is not."""
        return self.is_reserved or accelerators.find_accelerator(self.accelerator_type) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUser:
    """The amount of one quota that a node or queued resource uses, in the quota's unit."""

    holder: QuotaHolder
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """The limit and usage of one quota in one zone or region.

    Attributes:
        limit: the limit in the quota's unit, -1 if it is unlimited, or None if it is unknown.
        users: the nodes and queued resources that use the quota, largest first.
    """

    quota: Quota
    place: str
    limit: int | None
    users: tuple[QuotaUser, ...] = field(default=())

    @property
    def used(self) -> int:
        """The amount in use, in the quota's unit."""
        return sum(user.amount for user in self.users)

    @property
    def is_unlimited(self) -> bool:
        """Whether the cloud reports no upper limit."""
        return self.limit == UNLIMITED

    @property
    def free(self) -> int | None:
        """The remaining quota, or None if it is unlimited or unknown.

        It is negative if the limit was lowered below the usage.
        """
        return None if self.limit is None or self.is_unlimited else self.limit - self.used


def node_holder(node: Node) -> QuotaHolder:
    """Return the `QuotaHolder` of a node."""
    return QuotaHolder(
        name=str(node.name),
        kind="node",
        state=node.state,
        zone=node.name.zone,
        accelerator_type=node.accelerator_type,
        is_preemptible=takes_preemptible_quota(node.provisioning),
        is_reserved=node.reserved,
    )


def queued_holder(queued: QueuedResource) -> QuotaHolder:
    """Return the `QuotaHolder` of a queued resource without nodes."""
    return QuotaHolder(
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
    """Return the queued resources whose nodes don't exist. Existing nodes count against the quota themselves."""
    present = {(node.name.zone, node.name.node_id) for node in nodes}
    return tuple(each for each in queued if present.isdisjoint((each.name.zone, node_id) for node_id in each.node_ids))


def quota_holders(nodes: Iterable[Node], queued: Iterable[QueuedResource]) -> tuple[QuotaHolder, ...]:
    """Return the nodes and queued resources that use quota, without duplicates.

    A queued resource counts only while its node does not exist: before the node's creation and after its deletion.
    """
    listed = tuple(nodes)
    waiting = without_nodes(queued, listed)
    return (*map(node_holder, listed), *map(queued_holder, waiting))


def keys_of(held: QuotaHolder) -> tuple[Key, ...]:
    """Return the quotas that a quota user counts against; reserved chips and unknown types count against no quota."""
    kind = accelerators.find_accelerator(held.accelerator_type)
    if kind is None or held.is_reserved:
        return ()
    return tuple((quota, quota.place(held.zone)) for quota in quotas_of(kind, is_preemptible=held.is_preemptible))


def amount_used(held: QuotaHolder) -> int:
    """Return how much quota a node or queued resource uses, or 0 if its accelerator type is unknown."""
    kind = accelerators.find_accelerator(held.accelerator_type)
    return amount_of(kind) * held.count if kind else 0


def uses(limits: QuotaLimits | None, holding: Iterable[QuotaHolder]) -> tuple[QuotaUse, ...]:
    """Return all quotas with a known limit or with usage; quotas in use come first, then quotas with a limit above 0.

    Args:
        limits: the limits; None if the cloud has not reported any.
    """
    users: defaultdict[Key, list[QuotaUser]] = defaultdict(list)
    for held in holding:
        for key in keys_of(held):
            users[key].append(QuotaUser(holder=held, amount=amount_used(held)))
    values = limits.values if limits else {}
    found = (_use(key, values, users.get(key, [])) for key in {*values, *users})
    return tuple(sorted(found, key=_rank))


def _use(key: Key, values: Mapping[Key, int], users: list[QuotaUser]) -> QuotaUse:
    quota, place = key
    ordered = sorted(users, key=lambda user: (-user.amount, user.holder.name))
    return QuotaUse(quota=quota, place=place, limit=values.get(key), users=tuple(ordered))


def _rank(use: QuotaUse) -> tuple[object, ...]:
    return (not use.users, use.limit == 0, use.quota.generation, use.place, use.quota.quota_id)


def is_worth_showing(use: QuotaUse) -> bool:
    """Return whether to show a quota: it is in use, or its limit is above 0 and its location offers the generation."""
    has_room = use.limit is None or use.limit > 0
    return bool(use.users) or (has_room and use.quota.is_offered_in(use.place))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaAfter:
    """The remainder of one quota after a request.

    Attributes:
        requested: the requested amount, in the quota's unit.
        is_certain: whether all users of the quota are known.
    """

    use: QuotaUse
    requested: int
    is_certain: bool = True

    @property
    def left(self) -> int | None:
        """The remaining quota after the request, or None if it is unlimited or unknown.

        It is negative if the request does not fit.
        """
        return None if self.use.free is None else self.use.free - self.requested

    @property
    def fits(self) -> bool | None:
        """Whether the request fits; None if this is uncertain, because the limit or some usage is unknown."""
        if self.use.is_unlimited:
            return True
        if self.left is None:
            return None
        if self.left < 0:
            return False  # this is certain: any additional usage would only leave less quota
        return True if self.is_certain else None


def quota_after(
    request: QuotaHolder, limits: QuotaLimits | None, holding: Iterable[QuotaHolder], *, is_complete: bool
) -> tuple[QuotaAfter, ...]:
    """Return the remainder of each affected quota after a request.

    Args:
        holding: the current quota users.
        is_complete: whether `holding` contains all quota users; False if a zone did not respond.
    """
    keys = keys_of(request)
    known = {(use.quota, use.place): use for use in uses(limits, holding)}
    return tuple(
        QuotaAfter(
            use=known.get((quota, place)) or QuotaUse(quota=quota, place=place, limit=None),
            requested=amount_used(request),
            is_certain=is_complete,
        )
        for quota, place in keys
    )
