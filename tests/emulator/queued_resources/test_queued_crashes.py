"""An emulator that is killed at any moment goes on with its queue; no time passes while it is off."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from google.cloud import tpu_v2
from google.longrunning import operations_pb2

from jupyter_tpu.emulator.resources.protos import new
from jupyter_tpu.emulator.store.database import Store, StoreUnreadable
from tests.emulator.queued_resources.queued_cloud import UNTIL_ACTIVE_S, QueuedCloud, State

NodeState = tpu_v2.Node.State


@pytest.fixture
def queue(cloud: Any) -> QueuedCloud:
    cloud.control.pause()
    return QueuedCloud(cloud)


async def crash(queue: QueuedCloud) -> None:
    queue.emulator.kill()
    queue.emulator.start()
    await queue.cloud.reconnect()


async def test_requests_in_every_state_become_active_when_they_would_have(queue: QueuedCloud) -> None:
    begun = {"provisioning": 31, "waiting": 16, "accepted": 6, "creating": 1}
    moments = [*begun.values(), 0]
    for (queued_id, seconds), after in zip(begun.items(), moments[1:], strict=True):
        await queue.ask(queued_id, queue.spec(f"n-{queued_id}"))
        queue.control.advance(seconds - after)
    before = [(await queue.state(queued_id)).name for queued_id in begun]

    await crash(queue)

    assert before == ["PROVISIONING", "WAITING_FOR_RESOURCES", "ACCEPTED", "CREATING"]
    elapsed = 0
    for queued_id, seconds in begun.items():
        queue.control.advance(UNTIL_ACTIVE_S - seconds - 1 - elapsed)
        assert await queue.state(queued_id) == State.PROVISIONING
        queue.control.advance(1)
        assert await queue.state(queued_id) == State.ACTIVE
        elapsed = UNTIL_ACTIVE_S - seconds
    assert len(queue.control.billing()) == 4


async def test_what_waits_for_a_moment_still_does_after_a_crash(queue: QueuedCloud) -> None:
    queue.control.set_capacity("us-south1-a", "v5e", 0)
    parent = f"projects/{queue.emulator.project}/locations/us-south1-a"
    body = queue.alpha_body(queueingPolicy={"validUntilDuration": "1000s"})
    body["tpu"]["nodeSpec"][0]["parent"] = parent
    queue.ask_alpha("flex", provisioningModel="FLEX_START", runDuration={"maxRunDuration": "880s"})
    asked = {
        "parent": parent,
        "queuedResourceId": "late",
        "body": body,
        "requestId": "7ba9a16b-3e2b-4d0b-9d3c-2b1de3a4f001",
    }
    late = queue.alpha("queuedResources", "create", **asked)
    await queue.cloud.ask_for_node("day", scheduling_config=tpu_v2.SchedulingConfig(preemptible=True))
    queue.control.advance(500)

    await crash(queue)

    assert queue.alpha("queuedResources", "create", **asked)["name"] == late["name"]
    queue.control.advance(499)
    assert (await queue.state("flex"), await state_of(queue, f"{parent}/queuedResources/late")) == (
        State.ACTIVE,
        State.WAITING_FOR_RESOURCES,
    )
    queue.control.advance(1)
    assert (await queue.state("flex"), await state_of(queue, f"{parent}/queuedResources/late")) == (
        State.SUSPENDING,
        State.FAILED,
    )
    queue.control.advance(86_400)
    assert (await queue.nodes())["day"].state == NodeState.PREEMPTED
    assert {bill["ready_seconds"] for bill in queue.control.ledger()["nodes"]} == {880, 86_400}


async def state_of(queue: QueuedCloud, name: str) -> Any:
    return (await queue.client.get_queued_resource(name=name)).state.state


async def test_what_was_begun_is_ended_after_a_crash(queue: QueuedCloud) -> None:
    for queued_id in ("preempted", "deleted", "restarted"):
        await queue.ask(queued_id, queue.slices(2, queued_id), spot={})
    queue.control.advance(UNTIL_ACTIVE_S)
    queue.control.preempt(queue.emulator.node_name("preempted-0"))
    deletion = await queue.delete("deleted", force=True)
    await queue.client.reset_queued_resource(tpu_v2.ResetQueuedResourceRequest(name=queue.name("restarted")))

    await crash(queue)
    queue.control.advance(60)

    request = operations_pb2.GetOperationRequest(name=deletion.operation.name)
    nodes = await queue.nodes()
    assert (await queue.client.get_operation(request)).done
    assert await queue.listed() == ["preempted", "restarted"]
    assert {name: node.state for name, node in nodes.items()} == {
        "restarted-0": NodeState.READY,
        "restarted-1": NodeState.READY,
    }
    assert len(queue.control.billing()) == 2


OLD_SCHEMA = """
create table nodes (name text primary key, zone text not null, body blob not null);
create table operations (
    seq integer primary key autoincrement, name text unique not null, zone text not null,
    verb text not null, target text not null, created real not null,
    due real, stuck integer not null, verdict blob, state_before integer not null,
    cancel_requested integer not null, ended real, error blob, response blob
);
create table spans (
    seq integer primary key autoincrement, uid text not null, name text not null, accelerator_type text not null,
    zone text not null, spot integer not null, nanos_per_hour integer,
    started real not null, ended real, is_waived integer not null default 0
);
create table facts (key text primary key, value text not null);
insert into operations values (1, 'o', 'z', 'create', 'n', 1.0, 2.0, 0, null, 0, 0, null, null, null);
insert into spans values (1, 'u', 'n', 'v5litepod-8', 'z', 1, 5, 1.0, null, 0);
"""


def test_a_state_folder_of_an_older_emulator_opens_with_all_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "cloud.db"
    node = new("Node", name="projects/p/locations/z/nodes/n", accelerator_type="v5litepod-8", state=NodeState.READY)
    with sqlite3.connect(path) as old:
        old.executescript(OLD_SCHEMA)
        old.execute("insert into nodes values (?, 'z', ?)", (node.name, node.SerializeToString()))
    old.close()

    store = Store(path)

    (held,) = store.occupying_nodes()
    (operation,) = store.operations()
    (span,) = store.spans()
    assert (store.nodes(), held.node.accelerator_type, held.count) == ([node], "v5litepod-8", 1)
    assert (operation.version, operation.ready_at, span.mode) == ("v2", None, "on-demand")
    store.close()


def test_a_state_folder_of_a_newer_emulator_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "cloud.db"
    Store(path).close()
    with sqlite3.connect(path) as newer:
        newer.execute("pragma user_version = 99")
    newer.close()

    with pytest.raises(StoreUnreadable, match=r"newer emulator, schema 99; .* name another --state-dir"):
        Store(path)
