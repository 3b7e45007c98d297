"""Queued resources from the request to the leftover, in virtual time that stands still between the steps."""

from __future__ import annotations

import datetime
from typing import Any

import grpc.aio
import pytest
from google.cloud import tpu_v2, tpu_v2alpha1
from google.cloud.tpu_v2alpha1.services.tpu.transports import TpuGrpcAsyncIOTransport
from google.longrunning import operations_pb2
from google.rpc import code_pb2

from tests.emulator.queued_resources.queued_cloud import UNTIL_ACTIVE_S, Initiator, QueuedCloud, State

NodeState = tpu_v2.Node.State
_REQUEST, _OTHER_REQUEST = "0c34b1d2-6f58-4a7e-9c01-2d3e4f5a6b7c", "77aa8b9c-0d1e-4f2a-8b3c-4d5e6f7a8b9c"


@pytest.fixture
def queue(cloud: Any) -> QueuedCloud:
    cloud.control.pause()
    return QueuedCloud(cloud)


async def operation(queue: QueuedCloud, name: str) -> Any:
    return await queue.client.get_operation(operations_pb2.GetOperationRequest(name=name))


def moment(queue: QueuedCloud, seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(queue.control.now() + seconds, datetime.UTC)


async def test_a_queued_resource_goes_through_its_states_to_a_ready_node(queue: QueuedCloud) -> None:
    asked = await queue.ask()
    seen = [await queue.state()]
    for seconds in (5, 10, 15, 90):
        queue.control.advance(seconds)
        seen.append(await queue.state())

    node = (await queue.nodes())["n1"]
    assert seen == [
        State.CREATING,
        State.ACCEPTED,
        State.WAITING_FOR_RESOURCES,
        State.PROVISIONING,
        State.ACTIVE,
    ]
    assert (asked.metadata.verb, asked.metadata.target) == ("create", queue.name())
    assert (node.state, node.queued_resource) == (NodeState.READY, queue.name())
    assert queue.control.billing() == [node.name]


async def test_the_operation_of_a_create_gives_the_accepted_queued_resource(queue: QueuedCloud) -> None:
    name = (await queue.ask()).operation.name
    queue.control.advance(5)

    done = await operation(queue, name)
    queued = tpu_v2.QueuedResource.pb()()

    assert done.response.Unpack(queued)
    assert (queued.name, queued.state.state) == (queue.name(), State.ACCEPTED)
    assert queued.state.HasField("accepted_data")


async def test_a_request_waits_until_there_is_room(queue: QueuedCloud) -> None:
    queue.control.set_capacity(queue.emulator.zone, "v5e", 0)
    await queue.active()

    assert await queue.state() == State.WAITING_FOR_RESOURCES
    assert await queue.nodes() == {}

    queue.control.set_capacity(queue.emulator.zone, "v5e", 8)
    queue.control.advance(90)

    assert await queue.state() == State.ACTIVE


async def test_a_request_gets_the_chips_that_another_node_gives_back(queue: QueuedCloud) -> None:
    queue.control.set_capacity(queue.emulator.zone, "v5e", 8)
    await queue.cloud.ask_for_node("first")
    queue.control.advance(90)
    await queue.active()
    assert await queue.state() == State.WAITING_FOR_RESOURCES

    await queue.client.delete_node(name=queue.emulator.node_name("first"))
    queue.control.advance(30 + 90)

    assert await queue.state() == State.ACTIVE


async def test_scripted_capacity_lets_a_request_in_at_its_moment(queue: QueuedCloud) -> None:
    queue.control.script_capacity(queue.emulator.zone, "v5e", [(0, 0), (1000, 8)])
    await queue.ask()

    queue.control.advance(999)
    assert await queue.state() == State.WAITING_FOR_RESOURCES
    queue.control.advance(1)
    assert await queue.state() == State.PROVISIONING


async def test_a_request_that_is_not_served_in_time_fails_and_stays(queue: QueuedCloud) -> None:
    queue.control.set_capacity(queue.emulator.zone, "v5e", 0)
    await queue.ask(queueing_policy={"valid_until_duration": {"seconds": 3600}})

    queue.control.advance(3599)
    assert await queue.state() == State.WAITING_FOR_RESOURCES
    queue.control.advance(1)

    queued = await queue.get()
    assert queued.state.state == State.FAILED
    assert queued.state.failed_data.error.code == code_pb2.DEADLINE_EXCEEDED
    queue.control.set_capacity(queue.emulator.zone, "v5e", None)
    queue.control.advance(1000)
    assert await queue.state() == State.FAILED


async def test_a_request_for_later_stays_accepted_until_then(queue: QueuedCloud) -> None:
    await queue.ask(queueing_policy={"valid_after_time": moment(queue, 1000)})

    queue.control.advance(999)
    assert await queue.state() == State.ACCEPTED
    queue.control.advance(2 + 15 + 90)
    assert await queue.state() == State.ACTIVE


async def test_an_interval_bounds_a_request_on_both_sides(queue: QueuedCloud) -> None:
    queue.control.set_capacity(queue.emulator.zone, "v5e", 0)
    interval = {"start_time": moment(queue, 500), "end_time": moment(queue, 900)}
    await queue.ask(queueing_policy={"valid_interval": interval})

    seen = []
    for seconds in (499, 2, 397, 3):
        queue.control.advance(seconds)
        seen.append(await queue.state())

    assert seen == [State.ACCEPTED, State.WAITING_FOR_RESOURCES, State.WAITING_FOR_RESOURCES, State.FAILED]


@pytest.mark.parametrize(("prefix", "first"), [("sl", "sl-0"), ("", "q1-0")])
async def test_a_multislice_request_makes_numbered_nodes(queue: QueuedCloud, prefix: str, first: str) -> None:
    await queue.active("q1", queue.slices(3, prefix))

    nodes = await queue.nodes()
    assert list(nodes) == [first, first.replace("0", "1"), first.replace("0", "2")]
    assert all(node.multislice_node and node.state == NodeState.READY for node in nodes.values())


async def test_a_multislice_request_waits_for_room_for_all_its_nodes(queue: QueuedCloud) -> None:
    queue.control.set_capacity(queue.emulator.zone, "v5e", 15)
    await queue.active("q1", queue.slices(2))

    assert await queue.state() == State.WAITING_FOR_RESOURCES
    queue.control.set_capacity(queue.emulator.zone, "v5e", 16)
    queue.control.advance(90)
    assert await queue.state() == State.ACTIVE


async def test_several_specs_make_a_node_each(queue: QueuedCloud) -> None:
    await queue.active("q1", queue.spec("a"), queue.spec("b", accelerator_type="v5litepod-1"))

    nodes = await queue.nodes()
    assert {name: node.accelerator_type for name, node in nodes.items()} == {"a": "v5litepod-8", "b": "v5litepod-1"}
    assert not any(node.multislice_node for node in nodes.values())


async def test_a_preempted_node_suspends_its_queued_resource_for_good(queue: QueuedCloud) -> None:
    await queue.active("q1", queue.slices(2), spot={})
    queue.control.advance(600)

    queue.control.preempt(queue.emulator.node_name("q1-1"))

    suspending = await queue.get()
    assert (suspending.state.state, suspending.state.state_initiator) == (State.SUSPENDING, Initiator.SERVICE)
    assert queue.control.billing() == []
    queue.control.advance(30)
    suspended = await queue.get()
    assert (suspended.state.state, suspended.state.state_initiator) == (State.SUSPENDED, Initiator.SERVICE)
    assert await queue.nodes() == {}
    queue.control.advance(10_000)
    assert await queue.state() == State.SUSPENDED
    assert {bill["ready_seconds"] for bill in queue.control.ledger()["nodes"]} == {600}


async def test_spot_and_guaranteed_say_how_the_nodes_are_scheduled(queue: QueuedCloud) -> None:
    await queue.ask("q1", queue.spec("a"), spot={})
    await queue.active("q2", queue.spec("b"), guaranteed={})

    nodes = await queue.nodes()
    assert (nodes["a"].scheduling_config.spot, nodes["b"].scheduling_config.spot) == (True, False)


async def test_deleting_by_force_takes_the_nodes_along_and_ends_when_they_are_gone(queue: QueuedCloud) -> None:
    await queue.active("q1", queue.slices(2))
    queue.control.advance(100)

    name = (await queue.delete(force=True)).operation.name

    assert await queue.state() == State.DELETING
    assert {node.state for node in (await queue.nodes()).values()} == {NodeState.DELETING}
    assert queue.control.billing() == []
    assert not (await operation(queue, name)).done
    queue.control.advance(30)
    done = await operation(queue, name)
    assert done.done
    assert done.response.type_url.endswith("google.protobuf.Empty")
    assert (await queue.listed(), await queue.nodes()) == ([], {})
    assert {bill["ready_seconds"] for bill in queue.control.ledger()["nodes"]} == {100}


async def test_a_request_that_is_made_again_under_its_name_may_ask_for_less(queue: QueuedCloud) -> None:
    queue.control.set_capacity(queue.emulator.zone, "v5e", 7)
    await queue.active("other", queue.spec("other"))
    await queue.active()
    await queue.delete()
    queue.control.advance(30)

    await queue.active("q1", queue.spec(accelerator_type="v5litepod-1"))

    assert (await queue.state(), await queue.state("other")) == (State.ACTIVE, State.WAITING_FOR_RESOURCES)


@pytest.mark.parametrize("seconds", [0, 5, 15])
async def test_a_queued_resource_without_nodes_is_deleted_without_force(queue: QueuedCloud, seconds: int) -> None:
    queue.control.set_capacity(queue.emulator.zone, "v5e", 0)
    await queue.ask()
    if seconds:
        queue.control.advance(seconds)

    await queue.delete()
    queue.control.advance(30)

    assert await queue.listed() == []
    queue.control.set_capacity(queue.emulator.zone, "v5e", None)
    queue.control.advance(1000)
    assert await queue.nodes() == {}


async def test_a_queued_resource_whose_node_was_deleted_is_suspended_by_the_user(queue: QueuedCloud) -> None:
    await queue.active()

    await queue.client.delete_node(name=queue.emulator.node_name("n1"))
    assert await queue.state() == State.SUSPENDING
    queue.control.advance(30)

    queued = await queue.get()
    assert (queued.state.state, queued.state.state_initiator) == (State.SUSPENDED, Initiator.USER)
    await queue.delete()
    queue.control.advance(30)
    assert await queue.listed() == []


async def test_a_queued_resource_stays_active_while_a_node_is_left(queue: QueuedCloud) -> None:
    await queue.active("q1", queue.slices(2))

    await queue.client.delete_node(name=queue.emulator.node_name("q1-0"))
    queue.control.advance(30)

    assert await queue.state() == State.ACTIVE
    assert queue.control.billing() == [queue.emulator.node_name("q1-1")]


async def test_a_cancelled_deletion_of_the_node_makes_it_active_again(queue: QueuedCloud) -> None:
    await queue.active()
    deletion = await queue.client.delete_node(name=queue.emulator.node_name("n1"))

    await queue.client.cancel_operation(operations_pb2.CancelOperationRequest(name=deletion.operation.name))

    assert await queue.state() == State.ACTIVE
    assert queue.control.billing() == [queue.emulator.node_name("n1")]


async def test_a_node_that_the_service_takes_is_not_brought_back_by_a_cancel(queue: QueuedCloud) -> None:
    await queue.active("q1", queue.slices(2), spot={})
    queue.control.preempt(queue.emulator.node_name("q1-0"))
    listing = operations_pb2.ListOperationsRequest(name=queue.emulator.parent)

    for each in (await queue.client.list_operations(listing)).operations:
        await queue.client.cancel_operation(operations_pb2.CancelOperationRequest(name=each.name))
    queue.control.advance(30)

    assert (await queue.state(), await queue.nodes()) == (State.SUSPENDED, {})


async def test_a_failed_delete_of_a_new_request_lets_it_go_on(queue: QueuedCloud) -> None:
    await queue.ask()
    queue.control.add_fault("DeleteQueuedResource", "operation_error", code="INTERNAL", message="failed")

    await queue.delete()
    queue.control.advance(UNTIL_ACTIVE_S)

    assert await queue.state() == State.ACTIVE


async def test_a_cancelled_create_leaves_no_queued_resource(queue: QueuedCloud) -> None:
    name = (await queue.ask()).operation.name

    await queue.client.cancel_operation(operations_pb2.CancelOperationRequest(name=name))

    assert (await operation(queue, name)).error.code == code_pb2.CANCELLED
    assert await queue.listed() == []


async def test_the_deletion_of_a_queued_resource_cannot_be_undone(queue: QueuedCloud) -> None:
    await queue.active()
    name = (await queue.delete(force=True)).operation.name

    await queue.client.cancel_operation(operations_pb2.CancelOperationRequest(name=name))
    queue.control.advance(30)

    assert (await operation(queue, name)).done
    assert (await queue.listed(), await queue.nodes()) == ([], {})


async def test_a_reset_starts_the_workers_anew(queue: QueuedCloud) -> None:
    await queue.active()
    queue.control.advance(100)
    request = tpu_v2.ResetQueuedResourceRequest(name=queue.name())

    reset = await queue.client.reset_queued_resource(request)

    assert (await queue.nodes())["n1"].state == NodeState.RESTARTING
    assert queue.control.billing() == []
    queue.control.advance(60 + 100)
    assert (await operation(queue, reset.operation.name)).done
    assert (await queue.nodes())["n1"].state == NodeState.READY
    assert queue.control.ledger()["nodes"][0]["ready_seconds"] == 200


async def test_used_up_addresses_suspend_and_then_fail_a_request(queue: QueuedCloud) -> None:
    queue.control.set_project(addresses_per_region=1)
    await queue.ask("q1", queue.slices(2))

    seen = []
    for seconds in (30, 60, 30):
        queue.control.advance(seconds)
        seen.append(await queue.state())

    queued = await queue.get()
    assert seen == [State.PROVISIONING, State.SUSPENDING, State.FAILED]
    assert queued.state.failed_data.error.code == code_pb2.RESOURCE_EXHAUSTED
    assert queued.state.failed_data.error.message.startswith("You have reached IN_USE_ADDRESSES limit. [EID: 0x")
    assert (await queue.nodes(), queue.control.ledger()["total_usd"]) == ({}, 0)


async def test_a_reservation_that_is_missing_fails_the_request(queue: QueuedCloud) -> None:
    await queue.active(reservation_name=f"{queue.emulator.parent}/reservations/ours")

    error = (await queue.get()).state.failed_data.error
    assert (error.code, error.message) == (code_pb2.NOT_FOUND, "Reservation not found")


async def test_a_reservation_serves_the_request_though_the_zone_is_full(queue: QueuedCloud) -> None:
    queue.control.set_capacity(queue.emulator.zone, "v5e", 0)
    queue.control.reserve("ours", queue.emulator.zone, "v5e", 8)
    await queue.active(reservation_name=f"{queue.emulator.parent}/reservations/ours")

    assert await queue.state() == State.ACTIVE
    assert (await queue.nodes())["n1"].scheduling_config.reserved


async def test_flex_start_ends_with_its_run_duration(queue: QueuedCloud) -> None:
    queue.ask_alpha(provisioningModel="FLEX_START", runDuration={"maxRunDuration": "14400s"})
    queue.control.advance(UNTIL_ACTIVE_S)
    shown = queue.get_alpha()

    queue.control.advance(100_000)

    assert shown["state"]["state"] == "ACTIVE"
    assert (shown["provisioningModel"], shown["runDuration"]) == ("FLEX_START", {"maxRunDuration": "14400s"})
    assert (await queue.get()).state.state_initiator == Initiator.SERVICE
    assert await queue.state() == State.SUSPENDED
    assert queue.control.ledger()["nodes"][0]["ready_seconds"] == 14_400


async def test_a_node_says_when_its_run_will_end(queue: QueuedCloud) -> None:
    ends = moment(queue, 5000).isoformat().replace("+00:00", "Z")
    queue.ask_alpha(provisioningModel="FLEX_START", runDuration={"terminationTime": ends})
    queue.control.advance(UNTIL_ACTIVE_S)

    node = queue.alpha("nodes", "get", name=queue.emulator.node_name("n1"))

    assert node["schedulingConfig"]["terminationTimestamp"][:19] == ends[:19]


async def test_a_cancelled_deletion_does_not_prolong_the_run(queue: QueuedCloud) -> None:
    queue.ask_alpha(provisioningModel="FLEX_START", runDuration={"maxRunDuration": "1000s"})
    queue.control.advance(UNTIL_ACTIVE_S + 900)
    deletion = await queue.client.delete_node(name=queue.emulator.node_name("n1"))
    await queue.client.cancel_operation(operations_pb2.CancelOperationRequest(name=deletion.operation.name))

    queue.control.advance(100)

    assert await queue.state() == State.SUSPENDING


async def test_flex_start_can_end_at_a_moment(queue: QueuedCloud) -> None:
    ends = moment(queue, 1000).isoformat().replace("+00:00", "Z")
    queue.ask_alpha(provisioningModel="FLEX_START", runDuration={"terminationTime": ends})

    queue.control.advance(1001)

    assert await queue.state() == State.SUSPENDING


async def test_best_effort_nodes_are_preemptible(queue: QueuedCloud) -> None:
    queue.ask_alpha(bestEffort={})
    queue.control.advance(UNTIL_ACTIVE_S)

    assert (await queue.nodes())["n1"].scheduling_config.preemptible
    assert "bestEffort" in queue.get_alpha()


async def test_queued_resources_are_listed_page_by_page_over_all_zones(queue: QueuedCloud) -> None:
    for number in range(5):
        await queue.ask(f"q{number}", queue.spec(f"n{number}"))
    request = tpu_v2.ListQueuedResourcesRequest(parent=queue.emulator.parent, page_size=2)

    pages = [page async for page in (await queue.client.list_queued_resources(request)).pages]

    assert [[each.name[-2:] for each in page.queued_resources] for page in pages] == [
        ["q0", "q1"],
        ["q2", "q3"],
        ["q4"],
    ]
    assert await queue.listed() == ["q0", "q1", "q2", "q3", "q4"]


async def test_the_same_request_id_means_the_same_request(queue: QueuedCloud) -> None:
    first = await queue.ask(request_id=_REQUEST)
    again = await queue.ask(request_id=_REQUEST)
    queue.control.advance(UNTIL_ACTIVE_S)
    gone = await queue.delete(force=True, request_id=_OTHER_REQUEST)
    gone_again = await queue.delete(force=True, request_id=_OTHER_REQUEST)

    assert first.operation.name == again.operation.name
    assert gone.operation.name == gone_again.operation.name
    assert len(queue.control.ledger()["nodes"]) == 1


async def test_the_same_request_id_makes_and_deletes_one_node(queue: QueuedCloud) -> None:
    body = queue.alpha_body()["tpu"]["nodeSpec"][0]["node"]
    asked = {"parent": queue.emulator.parent, "nodeId": "n1", "body": body, "requestId": _REQUEST}
    name = queue.emulator.node_name("n1")
    made = [queue.alpha("nodes", "create", **asked)["name"] for _ in range(2)]
    queue.control.advance(90)
    gone = [queue.alpha("nodes", "delete", name=name, requestId=_OTHER_REQUEST)["name"] for _ in range(2)]

    assert len({*made, *gone}) == 2


async def test_a_failed_create_leaves_no_queued_resource(queue: QueuedCloud) -> None:
    queue.control.add_fault("CreateQueuedResource", "operation_error", code="INTERNAL", message="failed")
    name = (await queue.ask()).operation.name

    queue.control.advance(30)

    assert (await operation(queue, name)).error.message == "failed"
    assert await queue.listed() == []


async def test_a_failed_delete_leaves_everything_as_it_was(queue: QueuedCloud) -> None:
    await queue.active()
    queue.control.add_fault("DeleteQueuedResource", "operation_error", code="INTERNAL", message="failed")
    name = (await queue.delete(force=True)).operation.name

    queue.control.advance(30)

    assert (await operation(queue, name)).error.message == "failed"
    assert await queue.state() == State.ACTIVE
    assert queue.control.billing() == [queue.emulator.node_name("n1")]


async def test_v2alpha1_over_grpc_sees_the_same_queue(queue: QueuedCloud) -> None:
    async with grpc.aio.insecure_channel(queue.emulator.grpc) as channel:
        transport = TpuGrpcAsyncIOTransport(channel=channel, host=queue.emulator.grpc)
        client = tpu_v2alpha1.TpuAsyncClient(transport=transport)
        node = {"accelerator_type": queue.emulator.accelerator_type, "runtime_version": queue.emulator.runtime_version}
        spec = {"parent": queue.emulator.parent, "node": node, "multi_node_params": {"node_count": 2}}
        queued = tpu_v2alpha1.QueuedResource(tpu={"node_spec": [spec]}, best_effort={})
        asked = await client.create_queued_resource(
            parent=queue.emulator.parent, queued_resource=queued, queued_resource_id="q1"
        )
        queue.control.advance(UNTIL_ACTIVE_S)
        shown = await client.get_queued_resource(name=queue.name())

    assert asked.metadata.api_version == "v2alpha1"
    assert shown.state.state == tpu_v2alpha1.QueuedResourceState.State.ACTIVE
    assert "best_effort" in shown
    assert list(await queue.nodes()) == ["q1-0", "q1-1"]
