"""Limit the time that a node may have been READY without being observed, by reading the cloud's operations.

The cloud's list of operations contains each stop, deletion and start, including those by the node's guard. If there is
no such operation, for example because the node was pre-empted, the longest possible time is assumed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_tpu.errors import TpuError
from jupyter_tpu.models import NodeName, Operation
from jupyter_tpu.money.accrual import NodesObservation, ObservedNode
from jupyter_tpu.money.spans import Span

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger

log = logging.getLogger(__name__)

Operations = dict[str, tuple[Operation, ...]]


async def record_observation(cloud: CloudApi, ledger: SpendLedger, observation: NodesObservation) -> None:
    """Record an observation in the ledger, with limits on the unobserved time before it.

    Raises:
        JournalUnwritable: nothing was recorded.
    """
    # preview first, so that operations are listed only for nodes with unobserved time
    outcome = await asyncio.to_thread(ledger.preview, replace(observation, now=cloud.clock.now()))
    closed = [span for span in outcome.closed if span.unwatched_s]
    opened = [span for span in outcome.opened if span.unwatched_s]
    if closed or opened:
        operations = await _operations(cloud, {span.name.zone for span in (*closed, *opened)})
        observation = replace(
            observation,
            ended=_ends(closed, operations),
            ready=tuple(_bounded(sight, observation, operations) for sight in observation.ready),
        )
    # use the current time, not the observation's: while this process was suspended, another process may have recorded
    # newer observations
    await asyncio.to_thread(ledger.record, replace(observation, now=cloud.clock.now()))


async def _operations(cloud: CloudApi, zones: Iterable[str]) -> Operations:
    """Return the operations of each zone, without the zones that do not respond."""
    operations: Operations = {}
    for zone in zones:
        try:
            operations[zone] = await cloud.list_operations(zone)
        except TpuError as error:
            log.info("The operations in %s could not be listed, so the longest time counts: %s", zone, error)
    return operations


def _ends(closed: Iterable[Span], operations: Operations) -> dict[NodeName, float]:
    ends = {span.name: ended_at_latest(span, operations.get(span.name.zone, ())) for span in closed}
    return {name: at for name, at in ends.items() if at is not None}


def _bounded(sight: ObservedNode, observation: NodesObservation, operations: Operations) -> ObservedNode:
    began_at = began_at_earliest(sight.name, operations.get(sight.name.zone, ()))
    if began_at is None:
        return sight
    return replace(sight, unwatched_s=min(sight.unwatched_s, max(0.0, observation.seen_at(sight.name) - began_at)))


def ended_at_latest(span: Span, operations: Iterable[Operation]) -> float | None:
    """Return when the node was first deleted or, if it wasn't deleted, last stopped (Unix seconds).

    The node can't have been READY after this time.

    Returns None if the node was neither stopped nor deleted since it was last observed as READY. The last stop is used
    because a stopped node may have been restarted.
    """
    done = _done(span.name, operations)
    since = [each for each in done if each.ended_at is not None and each.ended_at >= span.ended_at]
    # a deleted node does not come back, so use the first deletion; later deletions are those of newer nodes with the
    # same name
    deleted = [each.ended_at for each in since if each.verb == "delete" and each.ended_at is not None]
    stopped = [each.ended_at for each in since if each.verb == "stop" and each.ended_at is not None]
    return min(deleted) if deleted else max(stopped, default=None)


def began_at_earliest(name: NodeName, operations: Iterable[Operation]) -> float | None:
    """Return when the node's last creation or start was requested (Unix seconds), or None if unknown."""
    asked = [each.created_at for each in _done(name, operations) if each.verb in ("create", "start")]
    return max((at for at in asked if at is not None), default=None)


def _done(name: NodeName, operations: Iterable[Operation]) -> list[Operation]:
    """Return a node's successful operations. The cloud may return the project's number, so ignore the project."""
    place = f"/locations/{name.zone}/nodes/{name.node_id}"
    return [each for each in operations if each.done and each.error is None and each.target.endswith(place)]
