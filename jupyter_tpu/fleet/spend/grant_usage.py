"""Compute how much of the user's grants current nodes use, and whether a grant covers a new node."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import TpuError
from jupyter_tpu.fleet.reconciler.records import FleetSnapshot
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.grant_store import Grants, WrittenGrants
from jupyter_tpu.journal.ledger import Ledger
from jupyter_tpu.models import Node, NodeName
from jupyter_tpu.money.allotment import Allotment, allot
from jupyter_tpu.money.coverage import Coverage, NodeRequest, coverage
from jupyter_tpu.money.credit import credits_used
from jupyter_tpu.money.days import day_of
from jupyter_tpu.money.grants import Grant
from jupyter_tpu.provisioning import flags_of

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantUsage:
    """The grants and their usage at one time.

    Attributes:
        allotment: the nodes that use each row of the grants.
        spent: amount used of each credit since its start, in US dollars, by the credit's name; None if unknown.
        now: when the usage was computed (Unix seconds).
    """

    written: WrittenGrants
    allotment: Allotment
    spent: Mapping[str, float | None]
    now: float

    def coverage(self, request: NodeRequest) -> Coverage:
        """Return the grants that would cover this node."""
        left = {grant.name: self._left(grant) for grant in self.written.grants}
        return coverage(request, self.written.grants, self.allotment, now=self.now, left=left)

    def to_json(self) -> JSON:
        """Return all grants as JSON, including damaged grants, sorted by name."""
        views = {grant.name: self._view(grant) for grant in self.written.grants}
        views.update({name: _broken_view(name, problem) for name, problem in self.written.broken.items()})
        return {"grants": [views[name] for name in sorted(views)]}

    def view_of(self, name: str) -> JSON:
        """Return the grant with this name as JSON; raises `KeyError` if it doesn't exist."""
        return self._view({grant.name: grant for grant in self.written.grants}[name])

    def _left(self, grant: Grant) -> float | None:
        used = self.spent.get(grant.name)
        return None if grant.usd is None or used is None else max(0.0, grant.usd - used)

    def _view(self, grant: Grant) -> JSON:
        today = day_of(self.now)
        return {
            "name": grant.name,
            "kind": grant.kind,
            "starts_on": grant.starts_on,
            "ends_on": grant.ends_on,
            "days_left": grant.days_left(today),
            "is_over": grant.is_over(today),
            "rows": [self._row_view(grant, number) for number in range(len(grant.rows))],
            "usd": grant.usd,
            "usd_used": self.spent.get(grant.name) if grant.kind == "credit" else None,
            "usd_left": self._left(grant),
            "error": None,
        }

    def _row_view(self, grant: Grant, number: int) -> JSON:
        used, free = self.allotment.used_of(grant, number), self.allotment.free_of(grant, number)
        return {**grant.rows[number].to_json(), "used": used, "free": free}


async def is_covered(cloud: CloudApi, journal: Journal, name: NodeName, request: NodeRequest) -> bool:
    """Return whether a TRC grant would cover the node with this name if it were created or started now.

    If there is a grant, its usage is computed from a new list of the nodes. If the cloud does not respond, the node
    counts as not covered.

    Raises:
        JournalUnwritable: the grants can't be read.
    """
    place = {"endpoint": cloud.settings.endpoint, "project": cloud.settings.project}
    if not (await asyncio.to_thread(Grants(journal, **place).read)).grants:
        return False
    try:
        listed = await cloud.list_nodes()
    except TpuError:
        return False
    intents = await asyncio.to_thread(journal.listed, time.time(), **place)
    # exclude the node itself, so that it doesn't use up the grant that should cover it
    snapshot = FleetSnapshot(
        nodes=tuple(node for node in listed.nodes if node.name != name),
        intents=tuple(each for each in intents if each.node_name != name),
        unreachable=listed.unreachable,
        as_of=cloud.clock.now(),
        clock_ahead_s=cloud.clock.ahead_s,
    )
    return (await read_grant_usage(journal, cloud.settings, snapshot)).coverage(request).is_covered


async def read_grant_usage(journal: Journal, settings: CloudSettings, snapshot: FleetSnapshot) -> GrantUsage:
    """Read the stored grants and their usage by the nodes in the last list.

    Raises:
        JournalUnwritable: the grants can't be read.
    """
    return await asyncio.to_thread(_read, journal, settings, snapshot, time.time() - snapshot.clock_ahead_s)


def _read(journal: Journal, settings: CloudSettings, snapshot: FleetSnapshot, now: float) -> GrantUsage:
    place = {"endpoint": settings.endpoint, "project": settings.project}
    written = Grants(journal, **place).read()
    spans = Ledger(journal, **place).spans() if any(grant.kind == "credit" for grant in written.grants) else ()
    return grant_usage(written, snapshot, now=now, spent=credits_used(written.grants, spans, now=now))


def grant_usage(
    written: WrittenGrants, snapshot: FleetSnapshot, *, now: float, spent: Mapping[str, float | None]
) -> GrantUsage:
    """Return the grants and their usage by the last known nodes. The usage is unknown if the last poll failed."""
    nodes = _nodes(snapshot) if snapshot.as_of and snapshot.error is None else None
    allotment = allot(written.grants, nodes, today=day_of(now), unreachable=snapshot.unreachable)
    return GrantUsage(written=written, allotment=allotment, spent=spent, now=now)


def _nodes(snapshot: FleetSnapshot) -> tuple[Node, ...]:
    """Return the nodes, including those that open intents will create."""
    listed = {node.name for node in snapshot.nodes}
    requested = (intent.spec for intent in snapshot.intents if not intent.settled)
    # count the request at once: two nodes requested in a row must not both be covered by the same chips
    coming = (
        Node(
            name=spec.name,
            state="CREATING",
            accelerator_type=spec.accelerator_type,
            labels=spec.labels,
            **flags_of(spec.provisioning),
        )
        for spec in requested
        if spec is not None and spec.name not in listed
    )
    return (*snapshot.nodes, *coming)


def _broken_view(name: str, problem: TpuError) -> JSON:
    empty = dict.fromkeys(("kind", "starts_on", "ends_on", "days_left", "is_over", "usd", "usd_used", "usd_left"))
    return {"name": name, **empty, "rows": [], "error": problem.message}
