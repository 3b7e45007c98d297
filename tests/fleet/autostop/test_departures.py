"""Nodes that end without us: the audit log says so, with what their guards were told."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_tpu.autostop import Rules
from jupyter_tpu.fleet.autostop.autostop_settings import AutostopSettings
from jupyter_tpu.fleet.autostop.external_deletions import ExternalDeletions
from jupyter_tpu.fleet.capacity.queued_resources import Queue
from jupyter_tpu.fleet.cleanup.billable import delete_items, items_of
from jupyter_tpu.fleet.cleanup.stop_all import stop_all
from jupyter_tpu.fleet.reconciler.inventory import list_holdings
from jupyter_tpu.fleet.spend.enforcer import BudgetEnforcer
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.models import Node, QueuedName, QueuedSpec


async def watched(bench: Any, journal: Journal) -> Any:
    """A fleet that keeps a ledger, and looks who has left."""
    return await bench.fleet(BudgetEnforcer, ExternalDeletions, journal=journal)


async def ready(bench: Any, fleet: Any, journal: Journal) -> Node:
    """A node that the ledger knows."""
    assert (await fleet.wait((await fleet.create(bench.spec())).intent_id)).succeeded
    await until_open(journal, 1)
    node: Node = (await fleet.refresh()).node(bench.name())
    return node


async def until_open(journal: Journal, number: int) -> None:
    """Until the ledger says of so many nodes that they are READY."""
    async with asyncio.timeout(120):
        while open_spans(journal) != number:  # noqa: ASYNC110 - the journal never calls
            await asyncio.sleep(0.05)


def open_spans(journal: Journal) -> int:
    with journal.reading() as database:
        return int(database.execute("SELECT count(*) FROM spans WHERE is_open = 1").fetchone()[0])


def entries(bench: Any, journal: Journal, *actions: str) -> list[Entry]:
    settings = bench.cloud.settings
    audit = Audit(journal, endpoint=settings.endpoint, project=settings.project)
    return [entry for entry in audit.newest() if entry.action in actions]


async def ended(bench: Any, journal: Journal) -> Entry:
    async with asyncio.timeout(120):
        while not (found := entries(bench, journal, "ended")):  # noqa: ASYNC110 - the journal never calls
            await asyncio.sleep(0.05)
    (entry,) = found
    return entry


@pytest.mark.parametrize("verb", ["stop", "delete"])
async def test_what_a_guard_did_while_the_laptop_was_off_is_said_with_its_orders(bench: Any, verb: str) -> None:
    journal = bench.journal()
    fleet = await watched(bench, journal)
    node = await ready(bench, fleet, journal)
    AutostopSettings(journal, bench.cloud.settings).put_rules(node, Rules(idle_after_s=1800.0, action=verb), now=1.0)
    await fleet.close()
    await (bench.cloud.stop_node if verb == "stop" else bench.cloud.delete_node)(node.name)
    later = await bench.fleet(BudgetEnforcer, journal=journal)
    await until_open(journal, 0)
    await ExternalDeletions(bench.cloud, journal).reconcile(later, time.time() + 3600)
    (entry,) = entries(bench, journal, "ended")
    assert entry.subject == str(node.name)
    assert entry.detail["uid"] == node.uid
    due = f"Its guard was due to {verb} it after 30 min without use"
    assert f"and this computer did not request that. {due}" in entry.reason
    assert "It was last seen READY at 20" in entry.reason


async def test_a_guard_is_not_blamed_before_its_rules_were_due(bench: Any) -> None:
    journal = bench.journal()
    fleet = await watched(bench, journal)
    node = await ready(bench, fleet, journal)
    rules = Rules(idle_after_s=3600.0, session_s=7200.0, deadline_at=time.time() + 7200)
    AutostopSettings(journal, bench.cloud.settings).put_rules(node, rules, now=1.0)
    await bench.cloud.delete_node(node.name)
    reason = (await ended(bench, journal)).reason
    assert "None of its auto-stop rules was due yet, so someone else stopped or deleted it." in reason


async def test_a_queued_node_that_the_cloud_has_taken_was_pre_empted(bench: Any) -> None:
    journal = bench.journal()
    node = await ready_from_the_queue(bench, journal)
    bench.emulator.control.preempt(str(node.name))
    bench.emulator.control.advance(3600)
    reason = (await ended(bench, journal)).reason
    assert reason.startswith("The cloud has pre-empted the node: its queued resource is SUSPEND")


async def test_a_queued_node_that_was_deleted_elsewhere_is_not_said_to_be_pre_empted(bench: Any) -> None:
    journal = bench.journal()
    node = await ready_from_the_queue(bench, journal)
    await bench.cloud.delete_node(node.name)
    bench.emulator.control.advance(3600)
    assert "it was pre-empted, or someone else stopped or deleted it" in (await ended(bench, journal)).reason


async def ready_from_the_queue(bench: Any, journal: Journal) -> Node:
    """A spot node from the queue that the ledger knows, with a rule."""
    await watched(bench, journal)
    queued = QueuedName(project=bench.name().project, zone=bench.name().zone, queued_id="my-request")
    await bench.cloud.create_queued_resource(QueuedSpec(name=queued, node=bench.spec(spot=True)))
    bench.emulator.control.advance(3600)
    await until_open(journal, 1)
    node: Node = await bench.cloud.get_node(bench.name())
    AutostopSettings(journal, bench.cloud.settings).put_rules(node, Rules(idle_after_s=3600.0), now=1.0)
    return node


async def test_a_node_that_the_cloud_has_taken_is_not_laid_to_its_guard(bench: Any) -> None:
    journal = bench.journal()
    fleet = await watched(bench, journal)
    node = await ready(bench, fleet, journal)
    bench.emulator.control.preempt(str(node.name))
    assert (await ended(bench, journal)).reason.startswith("The cloud has pre-empted the node: it is PREEMPTED.")


async def test_what_was_asked_for_here_is_not_said_to_have_ended_by_itself(bench: Any) -> None:
    journal = bench.journal()
    fleet = await watched(bench, journal)
    node = await ready(bench, fleet, journal)
    assert (await fleet.wait((await fleet.delete(node.name)).intent_id)).succeeded
    departures = ExternalDeletions(bench.cloud, journal)
    await fleet.refresh()
    await until_open(journal, 0)
    await departures.reconcile(fleet, time.time())
    assert entries(bench, journal, "ended") == []


@pytest.mark.parametrize("by", ["the queue", "clean-up", "stop all"])
async def test_a_node_whose_queued_resource_was_deleted_here_is_not_said_to_have_been_ended_by_others(
    bench: Any, by: str
) -> None:
    journal = bench.journal()
    node = await ready_from_the_queue(bench, journal)
    fleet = await bench.fleet(journal=journal)
    await fleet.refresh()
    hands = SimpleNamespace(fleet=fleet, cloud=bench.cloud, journal=journal)
    holdings = await list_holdings(bench.cloud)
    if by == "the queue":
        await Queue(fleet, bench.cloud, journal).remove(holdings.queued[0].name)
    elif by == "clean-up":
        queued = [item for item in items_of(holdings) if item.kind == "queued_resource"]
        await delete_items(hands, queued, reason="The user cleaned up.", wait=True)
    else:
        await stop_all(hands)
    bench.emulator.control.advance(3600)
    await until_open(journal, 0)
    assert (await fleet.refresh()).node(node.name) is None
    await ExternalDeletions(bench.cloud, journal).reconcile(fleet, time.time())
    assert entries(bench, journal, "ended") == []


async def test_nothing_is_said_of_nodes_that_others_have_made(bench: Any) -> None:
    journal = bench.journal()
    fleet = await watched(bench, journal)
    await bench.cloud.create_node(bench.spec())
    await until_open(journal, 1)
    await bench.cloud.delete_node(bench.name())
    await until_open(journal, 0)
    await ExternalDeletions(bench.cloud, journal).reconcile(fleet, time.time())
    assert entries(bench, journal, "ended") == []


async def test_what_was_asked_for_here_and_refused_is_not_taken_for_its_end(bench: Any) -> None:
    journal = bench.journal()
    fleet = await watched(bench, journal)
    node = await ready(bench, fleet, journal)
    bench.emulator.control.add_fault("DeleteNode", "permission_denied")
    refused = await fleet.wait((await fleet.delete(node.name)).intent_id)
    assert refused.error is not None
    settings = bench.cloud.settings
    audit = Audit(journal, endpoint=settings.endpoint, project=settings.project)
    failed = {"error": refused.error.to_json()}
    audit.record(Entry(at=time.time(), action="delete", subject=str(node.name), reason="The user asked for it."))
    audit.record(Entry(at=time.time(), action="stop", subject=str(node.name), reason="A budget.", detail=failed))
    await bench.cloud.delete_node(node.name)
    assert "this computer did not request that" in (await ended(bench, journal)).reason


async def test_a_node_in_a_state_that_nobody_knows_has_not_ended(bench: Any) -> None:
    journal = bench.journal()
    fleet = await watched(bench, journal)
    await ready(bench, fleet, journal)
    bench.emulator.control.add_fault("ListNodes", "unknown_enum", times=None)
    for _ in range(3):
        assert (await fleet.refresh()).node(bench.name()).state == "UNKNOWN(99)"
        await ExternalDeletions(bench.cloud, journal).reconcile(fleet, time.time())
        await asyncio.sleep(0.1)
    assert open_spans(journal) == 1
    assert entries(bench, journal, "ended") == []
