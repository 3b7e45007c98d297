"""A node from its wish to its end, against the emulated cloud."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jupyter_tpu.fleet import Polling
from jupyter_tpu.lifecycle.time_limits import Limits


async def test_a_created_node_becomes_ready_with_our_label_and_key(bench: Any) -> None:
    fleet = await bench.fleet()
    intent = await fleet.wait((await fleet.create(bench.spec())).intent_id)
    assert intent.succeeded, intent
    node = fleet.snapshot().node(bench.name())
    assert node is not None
    assert (node.state, node.intent_id) == ("READY", intent.intent_id)
    assert node.metadata["ssh-keys"].startswith("me:ssh-ed25519 ")
    phases = [change.phase for change in bench.changes if change.kind == "intent"]
    assert list(dict.fromkeys(phases)) == ["requested", "asking", "provisioning", "booting", "ready"]


async def test_a_ready_node_has_published_host_keys(bench: Any) -> None:
    fleet = await bench.fleet()
    await fleet.wait((await fleet.create(bench.spec())).intent_id)
    (worker,) = await bench.cloud.get_worker_identities(bench.name())
    assert worker.host_keys[0].startswith("ssh-ed25519 AAAA")
    assert worker.ssh_port != 22


async def test_a_node_is_stopped_and_started_again(bench: Any) -> None:
    fleet = await bench.fleet()
    await fleet.wait((await fleet.create(bench.spec())).intent_id)
    stopped = await fleet.wait((await fleet.stop(bench.name())).intent_id)
    assert (stopped.phase, stopped.message) == (
        "stopped",
        "The node my-node exists and is STOPPED: only its disk is billed.",
    )
    assert bench.emulator.control.billing() == []
    started = await fleet.wait((await fleet.start_node(bench.name())).intent_id)
    assert started.phase == "ready"
    node = fleet.snapshot().node(bench.name())
    assert node is not None
    assert node.state == "READY"


@pytest.mark.parametrize("in_another_process", [False, pytest.param(True, marks=pytest.mark.nightly)])
async def test_a_node_is_stopped_and_started_as_soon_as_its_state_is_listed(
    bench: Any, in_another_process: bool
) -> None:
    # an intent polls its node only when it is woken, so the list is ahead of it
    creating = await bench.fleet(polling=Polling(open_s=1.0 if in_another_process else 600.0, idle_s=600.0))
    fleet = await bench.fleet() if in_another_process else creating
    bench.emulator.control.pause()
    created = await creating.create(bench.spec())
    await bench.until(lambda: any(change.phase == "provisioning" for change in bench.changes))
    await fleet.refresh()
    bench.emulator.control.advance(600)
    assert (await fleet.refresh()).node(bench.name()).state == "READY"

    stopping = await fleet.stop(bench.name())

    assert stopping.verb == "stop"
    await bench.until(lambda: any(change.phase == "stopping" for change in bench.changes))
    bench.emulator.control.advance(600)
    assert (await fleet.refresh()).node(bench.name()).state == "STOPPED"
    assert (await fleet.start_node(bench.name())).verb == "start"
    assert (await creating.wait(created.intent_id)).settled


async def test_a_node_is_stopped_though_the_cloud_refuses_to_read_it(bench: Any) -> None:
    fleet = await bench.fleet()
    await fleet.wait((await fleet.create(bench.spec())).intent_id)
    too_many = "Quota exceeded for quota metric 'Requests'"
    bench.emulator.control.add_fault("GetNode", "error", code=429, message=too_many, times=1)
    stopped = await fleet.wait((await fleet.stop(bench.name())).intent_id)
    assert stopped.phase == "stopped"
    assert bench.emulator.control.billing() == []


async def test_a_deleted_node_is_gone_and_costs_nothing(bench: Any) -> None:
    fleet = await bench.fleet()
    await fleet.wait((await fleet.create(bench.spec())).intent_id)
    intent = await fleet.wait((await fleet.delete(bench.name())).intent_id)
    assert (intent.phase, intent.message) == ("deleted", "The node my-node no longer exists, and nothing is billed.")
    assert fleet.snapshot().nodes == ()
    assert bench.emulator.control.billing() == []


async def test_a_deletion_overrules_a_creation_that_is_under_way(bench: Any) -> None:
    fleet = await bench.fleet()
    bench.emulator.control.pause()  # the node is not READY before its deletion is asked for
    created = await fleet.create(bench.spec())
    deleted = await fleet.delete(bench.name())
    bench.emulator.control.resume()
    deleted = await fleet.wait(deleted.intent_id)
    created = await fleet.wait(created.intent_id)
    assert (created.phase, created.settled, created.succeeded) == ("cancelled", True, False)
    assert deleted.succeeded
    assert (await fleet.refresh()).nodes == ()


async def test_fifty_parallel_wishes_for_one_node_make_one_node(bench: Any) -> None:
    fleet = await bench.fleet()
    bench.emulator.control.pause()  # the node is not READY before the last one asks
    intents = await asyncio.gather(*(fleet.create(bench.spec()) for _ in range(50)))
    bench.emulator.control.resume()
    assert len({intent.intent_id for intent in intents}) == 1
    await fleet.wait(intents[0].intent_id)
    assert len((await fleet.refresh()).nodes) == 1
    assert len(bench.emulator.control.ledger()["nodes"]) == 1


async def test_an_operation_that_never_ends_does_not_hold_up_a_ready_node(bench: Any) -> None:
    bench.emulator.control.add_fault("CreateNode", "stuck")
    fleet = await bench.fleet()
    assert (await fleet.wait((await fleet.create(bench.spec())).intent_id)).succeeded


async def test_a_creation_whose_answer_got_lost_is_adopted(bench: Any) -> None:
    bench.emulator.control.add_fault("CreateNode", "applied_then_drop")
    fleet = await bench.fleet()
    intent = await fleet.wait((await fleet.create(bench.spec())).intent_id)
    assert intent.succeeded, intent
    assert "checking" in [change.phase for change in bench.changes]
    assert len(bench.emulator.control.ledger()["nodes"]) == 1


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "truncated"},
        {"kind": "empty", "applied": True},
        {"kind": "html", "applied": True},
        {"kind": "error", "code": 500, "applied": True},
        {"kind": "error", "code": 504, "applied": True},
    ],
    ids=["truncated", "empty", "html", "500", "504"],
)
async def test_a_creation_whose_answer_is_no_answer_is_adopted(bench: Any, fault: dict[str, Any]) -> None:
    bench.emulator.control.add_fault("CreateNode", **fault)
    fleet = await bench.fleet()
    intent = await fleet.wait((await fleet.create(bench.spec())).intent_id)
    assert intent.succeeded, intent
    assert len(bench.emulator.control.ledger()["nodes"]) == 1


async def test_a_creation_that_never_reached_the_cloud_is_closed_as_not_created(bench: Any) -> None:
    bench.emulator.control.add_fault("CreateNode", "drop")
    fleet = await bench.fleet(limits=Limits(unsure_s=0.3))
    intent = await fleet.wait((await fleet.create(bench.spec())).intent_id)
    assert intent.error is not None
    assert intent.error.exists == "No node was created; nothing is billed."
    assert (await fleet.refresh()).nodes == ()


async def test_a_node_that_comes_after_all_is_no_longer_said_not_to_exist(bench: Any) -> None:
    bench.emulator.control.add_fault("CreateNode", "drop")
    fleet = await bench.fleet(limits=Limits(unsure_s=0.1))
    intent = await fleet.wait((await fleet.create(bench.spec())).intent_id)
    assert [shown.intent_id for shown in fleet.snapshot().intents] == [intent.intent_id]
    await bench.cloud.create_node(intent.spec)
    snapshot = await fleet.refresh()
    assert (len(snapshot.nodes), snapshot.intents) == (1, ())


@pytest.mark.parametrize("method", ["ListNodes", "GetNode", "*"])
async def test_a_new_node_that_the_cloud_does_not_show_yet_is_waited_for(bench: Any, method: str) -> None:
    bench.emulator.control.add_fault(method, "not_yet_visible", seconds=120)
    fleet = await bench.fleet()
    intent = await fleet.wait((await fleet.create(bench.spec())).intent_id)
    assert intent.succeeded, intent
    bench.emulator.control.advance(120)
    assert [node.state for node in (await fleet.refresh()).nodes] == ["READY"]
    assert len(bench.emulator.control.ledger()["nodes"]) == 1


async def test_a_deleted_node_that_the_cloud_still_shows_is_gone_in_the_end(bench: Any) -> None:
    fleet = await bench.fleet()
    await fleet.wait((await fleet.create(bench.spec())).intent_id)
    bench.emulator.control.add_fault("*", "still_visible", seconds=120)
    assert (await fleet.wait((await fleet.delete(bench.name())).intent_id)).succeeded
    bench.emulator.control.advance(120)
    assert (await fleet.refresh()).nodes == ()
    assert bench.emulator.control.billing() == []


async def test_a_creation_that_fails_and_leaves_a_node_for_a_while_is_not_forgotten(bench: Any) -> None:
    bench.emulator.control.add_fault("CreateNode", "half_created", seconds=100_000)
    fleet = await bench.fleet(limits=Limits(unsure_s=0.3))
    intent = await fleet.wait((await fleet.create(bench.spec())).intent_id)
    assert not intent.succeeded
    assert [node.state for node in (await fleet.refresh()).nodes] == ["CREATING"]
    bench.emulator.control.advance(100_000)
    assert (await fleet.refresh()).nodes == ()


@pytest.mark.parametrize("kind", ["drop", "applied_then_drop"])
async def test_a_deletion_whose_answer_got_lost_is_finished(bench: Any, kind: str) -> None:
    fleet = await bench.fleet(limits=Limits(ask_again_s=0.1))
    await fleet.wait((await fleet.create(bench.spec())).intent_id)
    bench.emulator.control.add_fault("DeleteNode", kind)
    assert (await fleet.wait((await fleet.delete(bench.name())).intent_id)).succeeded
    assert (await fleet.refresh()).nodes == ()


async def test_a_node_made_elsewhere_is_listed_and_can_be_deleted(bench: Any) -> None:
    await bench.cloud.create_node(bench.spec("foreign"))
    fleet = await bench.fleet()
    (node,) = (await fleet.refresh()).nodes
    assert node.intent_id == ""
    assert (await fleet.wait((await fleet.delete(node.name)).intent_id)).succeeded


async def test_a_node_deleted_elsewhere_is_no_longer_shown(bench: Any) -> None:
    fleet = await bench.fleet()
    await fleet.wait((await fleet.create(bench.spec())).intent_id)
    await bench.cloud.delete_node(bench.name())
    await bench.change("node", state="")
    assert fleet.snapshot().nodes == ()


async def test_a_slice_of_four_workers_is_ready_when_all_have_published_their_keys(bench: Any) -> None:
    fleet = await bench.fleet()
    spec = bench.spec(accelerator_type="v5litepod-16")
    assert (await fleet.wait((await fleet.create(spec)).intent_id)).succeeded
    workers = await bench.cloud.get_worker_identities(bench.name())
    assert [worker.worker_id for worker in workers] == [0, 1, 2, 3]
    assert all(worker.host_keys for worker in workers)
