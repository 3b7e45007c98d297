"""Nodes that wait in the cloud's queue: asked for once, shown as they are, and gone when they are removed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jupyter_tpu.errors import BadInput, CloudUnavailable, NodeExists, NodeNotFound, QuotaExceeded
from jupyter_tpu.fleet.capacity.queued_resources import Queue
from jupyter_tpu.journal.audit import Audit
from jupyter_tpu.lifecycle.intent_texts import NOTHING_CREATED
from jupyter_tpu.models import QueuedName

UNTIL_ACTIVE_S = 5 + 10 + 15 + 90


@pytest.fixture
async def queue(bench: Any) -> Queue:
    """A queue in a cloud whose time stands still unless a test moves it."""
    bench.emulator.control.pause()
    journal = bench.journal()
    return Queue(await bench.fleet(journal=journal), bench.cloud, journal)


def queued_name(bench: Any, queued_id: str = "my-node") -> QueuedName:
    return QueuedName(project=bench.emulator.project, zone=bench.emulator.zone, queued_id=queued_id)


async def states(queue: Queue) -> list[str]:
    return [each.state for each in (await queue.list()).items]


async def test_a_queued_node_waits_for_room_and_becomes_ready(bench: Any, queue: Queue) -> None:
    control = bench.emulator.control
    control.set_capacity(bench.emulator.zone, "v5e", 0)
    queued = await queue.add(bench.spec(spot=True), valid_for_s=6 * 3600)
    assert (queued.state, queued.spot, queued.node_ids) == ("CREATING", True, ("my-node",))
    assert queued.valid_until == pytest.approx(control.now() + 6 * 3600)
    control.advance(600)
    assert await states(queue) == ["WAITING_FOR_RESOURCES"]
    control.set_capacity(bench.emulator.zone, "v5e", 8)
    control.advance(UNTIL_ACTIVE_S)
    snapshot = await queue.list()
    (active,) = snapshot.items
    assert (active.state, active.holds_quota, active.is_leftover) == ("ACTIVE", False, False)
    assert snapshot.since[active.name] == pytest.approx(snapshot.as_of)
    node = await bench.cloud.get_node(bench.name())
    assert (node.state, node.intent_id) == ("READY", active.intent_id)
    assert "me:ssh-ed25519" in node.metadata["ssh-keys"]

    assert (await queue.remove(active.name)).state == "DELETING"
    assert (await queue.remove(active.name)).state == "DELETING"
    control.advance(600)
    assert await states(queue) == []
    assert control.billing() == []


async def test_what_found_no_room_in_time_is_a_leftover_that_holds_quota_until_it_is_removed(
    bench: Any, queue: Queue
) -> None:
    control = bench.emulator.control
    control.set_capacity(bench.emulator.zone, "v5e", 0)
    queued = await queue.add(bench.spec(), valid_for_s=3600)
    control.advance(4000)
    (leftover,) = (await queue.list()).items
    assert (leftover.state, leftover.is_leftover, leftover.holds_quota) == ("FAILED", True, True)
    assert leftover.error is not None
    assert "my-node timed out: no capacity in us-central1-a before its deadline." in leftover.error.message
    assert "could not be provisioned within its interval" in leftover.error.raw
    with pytest.raises(NodeExists, match="already") as refused:
        await queue.add(bench.spec())
    assert refused.value.exists == "The queued resource is FAILED and counts towards your quota."
    await queue.remove(queued.name)
    control.advance(60)
    assert await states(queue) == []
    assert [quota["used"] for quota in control.quotas() if quota["used"]] == []


async def test_a_region_without_addresses_leaves_a_leftover_that_says_so(bench: Any, queue: Queue) -> None:
    bench.emulator.control.set_project(addresses_per_region=0)
    await queue.add(bench.spec())
    bench.emulator.control.advance(1000)
    (leftover,) = (await queue.list()).items
    assert leftover.error is not None
    assert (leftover.state, leftover.error.code) == ("FAILED", "address_quota_exceeded")


async def test_a_taken_away_node_leaves_a_leftover(bench: Any, queue: Queue) -> None:
    queued = await queue.add(bench.spec(spot=True))
    bench.emulator.control.advance(UNTIL_ACTIVE_S)
    bench.emulator.control.preempt(str(bench.name()))
    bench.emulator.control.advance(600)
    (leftover,) = (await queue.list()).items
    assert (leftover.state, leftover.is_leftover, leftover.holds_quota) == ("SUSPENDED", True, True)
    await queue.remove(queued.name)
    bench.emulator.control.advance(60)
    assert await states(queue) == []


@pytest.mark.parametrize("fault", ["applied_then_drop", "truncated", "drop"])
async def test_a_request_that_got_no_answer_is_queued_once(bench: Any, queue: Queue, fault: str) -> None:
    bench.emulator.control.add_fault("CreateQueuedResource", fault)
    queued = await queue.add(bench.spec())
    assert queued.name == queued_name(bench)
    assert len((await queue.list()).items) == 1


async def test_a_queued_node_is_not_hidden_by_a_list_that_fails_afterwards(bench: Any, queue: Queue) -> None:
    bench.emulator.control.add_fault("ListQueuedResources", "error", code=503, nth=2, times=1000)
    queued = await queue.add(bench.spec())
    assert (queued.name, queued.state) == (queued_name(bench), "CREATING")


async def test_a_request_without_an_answer_and_without_a_list_may_be_queued(bench: Any, queue: Queue) -> None:
    bench.emulator.control.add_fault("CreateQueuedResource", "drop", times=1000)
    bench.emulator.control.add_fault("ListQueuedResources", "error", code=503, nth=2, times=1000)
    with pytest.raises(CloudUnavailable) as caught:
        await queue.add(bench.spec())
    assert "my-node may be queued" in caught.value.exists


async def test_a_removal_is_confirmed_although_the_list_fails_afterwards(bench: Any, queue: Queue) -> None:
    queued = await queue.add(bench.spec())
    bench.emulator.control.add_fault("ListQueuedResources", "error", code=503, nth=2, times=1000)
    assert (await queue.remove(queued.name)).state == "DELETING"


async def test_twenty_requests_of_two_processes_for_one_name_queue_one_node(bench: Any, queue: Queue) -> None:
    journal = bench.journal()
    other = Queue(await bench.fleet(journal=journal), bench.cloud, journal)
    queued = await asyncio.gather(*((queue, other)[at % 2].add(bench.spec()) for at in range(20)))
    assert len({each.intent_id for each in queued}) == 1
    bench.emulator.control.advance(UNTIL_ACTIVE_S)
    assert len(bench.emulator.control.ledger()["nodes"]) == 1


@pytest.fixture
def known_emulator(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the emulator's REST API is, as its user sets it."""
    monkeypatch.setenv("JUPYTER_TPU_EMULATOR", bench.emulator.rest)


async def test_a_flex_start_node_is_ended_by_the_cloud_itself(bench: Any, queue: Queue, known_emulator: None) -> None:
    queued = await queue.add(bench.spec(), run_for_s=3600)
    assert (await queue.add(bench.spec(), run_for_s=3600)).intent_id == queued.intent_id
    control = bench.emulator.control
    control.advance(UNTIL_ACTIVE_S)
    node = await bench.cloud.get_node(bench.name())
    assert (node.state, node.intent_id) == ("READY", queued.intent_id)
    control.advance(3700)
    assert control.billing() == []
    (leftover,) = (await queue.list()).items
    assert (leftover.state, leftover.is_leftover) == ("SUSPENDED", True)
    (bill,) = control.ledger()["nodes"]
    assert 3500 < bill["ready_seconds"] <= 3600


async def test_a_refused_flex_start_says_why(bench: Any, queue: Queue, known_emulator: None) -> None:
    bench.emulator.control.add_fault("CreateQueuedResource", "quota")
    with pytest.raises(QuotaExceeded) as refused:
        await queue.add(bench.spec(), run_for_s=3600)
    assert "Quota limit" in refused.value.raw
    with pytest.raises(BadInput, match="7 days"):
        await queue.add(bench.spec(), run_for_s=1e6)
    with pytest.raises(BadInput, match="also be a spot node"):
        await queue.add(bench.spec(spot=True), run_for_s=3600)
    assert await states(queue) == []


async def test_a_flex_start_that_got_no_answer_is_queued_once(bench: Any, queue: Queue, known_emulator: None) -> None:
    bench.emulator.control.add_fault("CreateQueuedResource", "applied_then_drop")
    await queue.add(bench.spec(), run_for_s=3600)
    assert len((await queue.list()).items) == 1


async def test_a_refused_request_leaves_nothing(bench: Any, queue: Queue) -> None:
    bench.emulator.control.add_fault("CreateQueuedResource", "quota")
    with pytest.raises(QuotaExceeded) as refused:
        await queue.add(bench.spec())
    assert "Quota limit" in refused.value.raw
    assert await states(queue) == []


async def test_a_project_that_the_cloud_calls_by_its_number_is_called_by_its_id(bench: Any, queue: Queue) -> None:
    bench.emulator.control.set_project(numbers_in_names=True)
    queued = await queue.add(bench.spec())
    assert queued.name == queued_name(bench)
    assert (await queue.remove(queued.name)).state == "DELETING"


async def test_what_cannot_be_is_refused_before_the_cloud_is_asked(bench: Any, queue: Queue) -> None:
    with pytest.raises(BadInput, match="not offered") as refused:
        await queue.add(bench.spec(accelerator_type="v4-8"))
    assert refused.value.exists == NOTHING_CREATED
    with pytest.raises(BadInput, match="30 days"):
        await queue.add(bench.spec(), valid_for_s=1)
    with pytest.raises(NodeNotFound, match="no queued resource ghost"):
        await queue.remove(queued_name(bench, "ghost"))


async def test_a_deletion_that_got_no_answer_is_judged_by_what_is_there(bench: Any, queue: Queue) -> None:
    queued = await queue.add(bench.spec())
    bench.emulator.control.advance(UNTIL_ACTIVE_S)
    bench.emulator.control.add_fault("DeleteQueuedResource", "applied_then_drop")
    assert (await queue.remove(queued.name)).state == "DELETING"


async def test_requests_and_removals_are_in_the_audit_log(bench: Any, queue: Queue) -> None:
    queued = await queue.add(bench.spec())
    await queue.remove(queued.name)
    settings = bench.cloud.settings
    entries = Audit(bench.journal(), endpoint=settings.endpoint, project=settings.project).newest()
    assert [(entry.action, entry.subject) for entry in entries] == [
        ("unqueue", str(queued.name)),
        ("queue", str(queued.name)),
    ]
