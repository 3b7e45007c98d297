"""Times in which a node may have been READY while nobody here looked: the cloud is asked when they began and ended.

Its list of operations tells who stopped, deleted or started a node from elsewhere, its own guard too. Where it does
not tell, as of a node that was preempted, the longest time counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_tpu.errors import TpuError
from jupyter_tpu.models import NodeName, Operation
from jupyter_tpu.money.accrual import Look, Sight
from jupyter_tpu.money.spans import Span

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.fleet.spend.ledger import SpendLedger

log = logging.getLogger(__name__)

Operations = dict[str, tuple[Operation, ...]]


async def write_down(cloud: CloudApi, books: SpendLedger, look: Look) -> None:
    """Take a look into the books, with what the cloud tells of the times before it.

    Raises:
        JournalUnwritable: nothing was written down.
    """
    outcome = await asyncio.to_thread(books.outcome, replace(look, now=cloud.clock.now()))
    closed = [span for span in outcome.closed if span.unwatched_s]
    opened = [span for span in outcome.opened if span.unwatched_s]
    if closed or opened:
        told = await _told(cloud, {span.name.zone for span in (*closed, *opened)})
        look = replace(
            look, ended=_ends(closed, told), ready=tuple(_bounded(sight, look, told) for sight in look.ready)
        )
    # not the time of the look: this process may have slept since, and another one has looked meanwhile
    await asyncio.to_thread(books.take_in, replace(look, now=cloud.clock.now()))


async def _told(cloud: CloudApi, zones: Iterable[str]) -> Operations:
    """What the cloud knows of each zone; nothing of one that does not answer."""
    told: Operations = {}
    for zone in zones:
        try:
            told[zone] = await cloud.list_operations(zone)
        except TpuError as error:
            log.info("What was done in %s is not known, so the longest time counts: %s", zone, error)
    return told


def _ends(closed: Iterable[Span], told: Operations) -> dict[NodeName, float]:
    ends = {span.name: ended_at_latest(span, told.get(span.name.zone, ())) for span in closed}
    return {name: at for name, at in ends.items() if at is not None}


def _bounded(sight: Sight, look: Look, told: Operations) -> Sight:
    began_at = began_at_earliest(sight.name, told.get(sight.name.zone, ()))
    if began_at is None:
        return sight
    return replace(sight, unwatched_s=min(sight.unwatched_s, max(0.0, look.seen_at(sight.name) - began_at)))


def ended_at_latest(span: Span, operations: Iterable[Operation]) -> float | None:
    """When a node ceased to be READY at the latest: with the first deletion, else with the last stop.

    None where the cloud tells of neither since it was last seen READY. A stopped node may have been started again, so
    its last stop counts.
    """
    done = _done(span.name, operations)
    since = [each for each in done if each.ended_at is not None and each.ended_at >= span.ended_at]
    deleted = [each.ended_at for each in since if each.verb == "delete" and each.ended_at is not None]
    stopped = [each.ended_at for each in since if each.verb == "stop" and each.ended_at is not None]
    return min(deleted) if deleted else max(stopped, default=None)


def began_at_earliest(name: NodeName, operations: Iterable[Operation]) -> float | None:
    """When somebody asked last for what made the node READY; None where the cloud does not tell."""
    asked = [each.asked_at for each in _done(name, operations) if each.verb in ("create", "start")]
    return max((at for at in asked if at is not None), default=None)


def _done(name: NodeName, operations: Iterable[Operation]) -> list[Operation]:
    """Those of a node that did not fail; the cloud may name the project by its number."""
    place = f"/locations/{name.zone}/nodes/{name.node_id}"
    return [each for each in operations if each.done and each.error is None and each.target.endswith(place)]
