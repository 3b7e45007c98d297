"""Stop all spending now: cancel searches and auto-recovery, then stop or delete every node that costs money."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from jupyter_tpu.errors import CloudUnavailable, Text, TpuError
from jupyter_tpu.fleet.capacity.recreate import set_recovery
from jupyter_tpu.fleet.capacity.search_service import SearchService
from jupyter_tpu.fleet.reconciler.inventory import Holdings, list_holdings
from jupyter_tpu.fleet.reconciler.records import FleetSnapshot
from jupyter_tpu.fleet.spend.enforcer import can_stop
from jupyter_tpu.fleet.termination.termination_executor import (
    ACCEPTED_S,
    Opened,
    Result,
    TerminationExecutor,
    ignore_result,
)
from jupyter_tpu.journal.recovery_store import Recoveries
from jupyter_tpu.models import Node, NodeName
from jupyter_tpu.money.quota import LEFTOVER_QUEUED_STATES, Kind
from jupyter_tpu.node_end import EndCause

REASON = Text("The user stopped all spending.")
# our choice: maximum number of rounds. Each round deletes the nodes that appeared during the previous round.
_ROUNDS = 3
_COST_NOTHING = frozenset({"STOPPED", "STOPPING", "DELETING", "PREEMPTED", "TERMINATED"})
_ALREADY_OVER = LEFTOVER_QUEUED_STATES | {"ACTIVE", "DELETING", "SUSPENDING"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One node to stop or delete, or one queued resource to delete with its nodes."""

    verb: Literal["stop", "delete"]
    kind: Kind
    name: str
    nodes: tuple[NodeName, ...] = ()


def steps(holdings: Holdings, snapshot: FleetSnapshot, failed: Collection[str] = ()) -> tuple[Step, ...]:
    """Return the steps that stop all spending: waiting requests first, because they would become nodes.

    If all nodes of a queued resource would be deleted, the queued resource is deleted instead; otherwise it would
    remain as a leftover that counts towards the quota. If deleting the queued resource failed (its name is in
    `failed`), its nodes are deleted individually.
    """
    waiting = [each for each in holdings.queued if each.state not in _ALREADY_OVER]
    nodes = {node.name: node for node in _known_nodes(holdings, snapshot)}
    # include nodes that are not listed yet: deleting them cancels their creation, but a node that is being started has
    # a disk
    coming = {
        intent.node_name: intent.verb
        for intent in snapshot.intents
        if not intent.settled and intent.verb in ("create", "start") and intent.node_name not in nodes
    }
    ending = {
        node.name: _step_for(node, snapshot)
        for node in nodes.values()
        if node.state not in _COST_NOTHING or _is_coming(node, snapshot)
    }
    doomed = {name for name, step in ending.items() if step.verb == "delete"}
    # include only requests whose nodes are all deleted; other requests keep nodes that can be started again
    with_nodes = [
        each
        for each in holdings.queued
        if each.state == "ACTIVE" and each.nodes and doomed.issuperset(each.nodes) and str(each.name) not in failed
    ]
    ended_with_it = {node for each in with_nodes for node in each.nodes}
    return (
        *(
            Step(verb="delete", kind="queued_resource", name=str(each.name), nodes=each.nodes)
            for each in (*waiting, *with_nodes)
        ),
        *(
            Step(verb="stop" if verb == "start" else "delete", kind="node", name=str(name))
            for name, verb in sorted(coming.items())
        ),
        *(step for name, step in ending.items() if name not in ended_with_it),
    )


def _known_nodes(holdings: Holdings, snapshot: FleetSnapshot) -> Iterable[Node]:
    """Yield the nodes in the list; where the list is incomplete, yield the nodes that were seen earlier."""
    gaps = {*holdings.unreachable}
    yield from (node for node in snapshot.nodes if holdings.error or node.name.zone in gaps)
    yield from holdings.nodes


def _is_coming(node: Node, snapshot: FleetSnapshot, verbs: Collection[str] = ("create", "start")) -> bool:
    return any(
        intent.node_name == node.name and intent.verb in verbs and not intent.settled for intent in snapshot.intents
    )


def _step_for(node: Node, snapshot: FleetSnapshot) -> Step:
    """Return the step for a node: stop it if it can be restarted; delete it otherwise, or if it is being created."""
    # a node that is being started has a disk with the user's files; the stop is repeated until the start is over
    is_kept = can_stop(node) and (
        node.state not in ("CREATING", *_COST_NOTHING) or _is_coming(node, snapshot, ("start",))
    )
    return Step(verb="stop" if is_kept else "delete", kind="node", name=str(node.name))


async def stop_all(
    opened: Opened, on_result: Callable[[Result], None] = ignore_result, *, accepted_s: float = ACCEPTED_S
) -> tuple[Result, ...]:
    """Stop all spending, then check for new nodes; report each failure in the result.

    `on_result` is called with each result as it arrives; see `TerminationExecutor` for `accepted_s`.
    """
    # first delete the requests that would create nodes, then the nodes
    executor = TerminationExecutor(
        opened,
        reason=REASON,
        because=EndCause(cause="stop_all"),
        wait=True,
        on_result=on_result,
        accepted_s=accepted_s,
    )
    results = {result.name: result async for result in _call_off(opened, executor, on_result)}
    holdings = Holdings()
    for _ in range(_ROUNDS):
        # list everything again, because other processes may have created nodes in the meantime
        holdings, snapshot = await asyncio.gather(list_holdings(opened.cloud), opened.fleet.refresh())
        # if a queued resource could not be deleted, delete its nodes one by one
        failed = [name for name, result in results.items() if result.error]
        todo = [step for step in steps(holdings, snapshot, failed) if step.name not in results]
        if not todo:
            break
        done = await executor.each([_performed(executor, step) for step in todo])
        results.update({result.name: result for result in done})
    gaps = tuple(_gaps(holdings))
    for gap in gaps:
        on_result(gap)
    return (*results.values(), *gaps)


async def _call_off(
    opened: Opened, executor: TerminationExecutor, on_result: Callable[[Result], None]
) -> AsyncIterator[Result]:
    """Cancel searches and auto-recovery, which would create nodes later."""
    service, settings = SearchService(opened.cloud, opened.journal), opened.cloud.settings
    recoveries = Recoveries(opened.journal, endpoint=settings.endpoint, project=settings.project)
    try:
        searches = [each for each in await service.all() if not each.has_ended]
        chosen = [each for each in await asyncio.to_thread(recoveries.all) if each.is_on]
    except TpuError as error:  # don't leave the nodes running because of this error
        unread = Result(name=Text("the journal's searches and auto-recovery settings"), error=error)
        on_result(unread)
        yield unread
        return
    for search in searches:
        name = Text("the search for {node}", node=search.node_id)
        yield await executor.done("cancel", name, service.cancel(search.search_id))
    for each in chosen:
        off = set_recovery(opened.cloud, opened.journal, each.name, is_on=False, now=time.time())
        yield await executor.done("recover-off", Text("auto-recovery of {node}", node=each.name.node_id), off)


async def _performed(executor: TerminationExecutor, step: Step) -> Result:
    if step.verb == "stop":
        return await executor.stop(step.name)
    return await executor.delete(step.kind, step.name, step.nodes)


def _gaps(holdings: Holdings) -> Iterable[Result]:
    """Yield a failure for each missing part of the list of nodes, because missing nodes may be billed."""
    if holdings.error:
        yield Result(name=Text("the list of nodes and queued resources"), error=holdings.error)
    for zone in holdings.unreachable:
        yield Result(name=zone, error=_silent(zone))


def _silent(zone: str) -> TpuError:
    return CloudUnavailable(
        Text("{zone} did not respond.", zone=zone),
        exists="Unlisted nodes in this zone may be running and billed.",
        hint="Try again until every zone responds, or check the Google Cloud console.",
    )
