"""Long-running operations, and the faults that tests can script."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2
from google.longrunning import operations_pb2
from google.protobuf.field_mask_pb2 import FieldMask
from google.rpc import code_pb2

from jupyter_tpu.emulator.control.client import ControlRefused

State = tpu_v2.Node.State


async def show(cloud: Any, name: str) -> operations_pb2.Operation:
    return await cloud.client.get_operation(operations_pb2.GetOperationRequest(name=name))


async def finished(cloud: Any, name: str) -> operations_pb2.Operation:
    while not (operation := await show(cloud, name)).done:
        cloud.control.advance(1)
    return operation


async def names(cloud: Any) -> list[str]:
    return [node.name async for node in await cloud.client.list_nodes(parent=cloud.emulator.parent)]


async def test_an_operation_says_what_it_does_to_which_node(cloud: Any) -> None:
    operation = await cloud.ask_for_node()

    assert operation.metadata.verb == "create"
    assert operation.metadata.target == cloud.emulator.node_name("n1")
    assert operation.operation.name.startswith(f"{cloud.emulator.parent}/operations/operation-")


async def test_operations_are_listed_and_forgotten_when_deleted(cloud: Any) -> None:
    name = (await cloud.ask_for_node()).operation.name
    await finished(cloud, name)
    listing = operations_pb2.ListOperationsRequest(name=cloud.emulator.parent)

    assert [each.name for each in (await cloud.client.list_operations(listing)).operations] == [name]
    await cloud.client.delete_operation(operations_pb2.DeleteOperationRequest(name=name))

    assert list((await cloud.client.list_operations(listing)).operations) == []
    with pytest.raises(exceptions.NotFound):
        await show(cloud, name)


async def test_a_cancelled_create_ends_with_code_one_and_no_node(cloud: Any) -> None:
    name = (await cloud.ask_for_node()).operation.name

    await cloud.client.cancel_operation(operations_pb2.CancelOperationRequest(name=name))

    operation = await show(cloud, name)
    assert (operation.done, operation.error.code) == (True, code_pb2.CANCELLED)
    assert await names(cloud) == []


async def test_a_node_that_is_deleted_while_creating_leaves_nothing(cloud: Any) -> None:
    created = (await cloud.ask_for_node()).operation.name

    await cloud.delete()

    assert (await show(cloud, created)).error.code == code_pb2.CANCELLED
    assert await names(cloud) == []
    assert cloud.control.ledger()["total_usd"] == 0


async def test_a_stock_out_at_start_leaves_the_node_stopped(cloud: Any) -> None:
    await cloud.create()
    await cloud.stop()
    cloud.control.add_fault("StartNode", "stockout")

    with pytest.raises(exceptions.GoogleAPICallError, match="There is no more capacity"):
        await cloud.start()

    assert (await cloud.get()).state == State.STOPPED
    assert cloud.control.billing() == []


async def test_a_failed_stop_leaves_the_node_ready_and_billing(cloud: Any) -> None:
    await cloud.create()
    cloud.control.add_fault("StopNode", "operation_error", code="INTERNAL", message="an internal error has occurred")

    with pytest.raises(exceptions.GoogleAPICallError, match="an internal error has occurred"):
        await cloud.stop()

    assert (await cloud.get()).state == State.READY
    assert cloud.control.billing() == [cloud.emulator.node_name("n1")]


async def test_a_failed_update_leaves_a_node_that_was_stopped_meanwhile_as_it_is(cloud: Any) -> None:
    await cloud.create()
    cloud.control.set_time_scale(0.001)
    cloud.control.add_fault("UpdateNode", "operation_error", code="INTERNAL", message="failed")
    node = tpu_v2.Node(name=cloud.emulator.node_name("n1"), labels={"a": "b"})
    update = await cloud.client.update_node(node=node, update_mask=FieldMask(paths=["labels"]))
    await cloud.client.stop_node(tpu_v2.StopNodeRequest(name=node.name))

    await finished(cloud, update.operation.name)

    assert (await cloud.get()).state in (State.STOPPING, State.STOPPED)
    assert cloud.control.billing() == []


async def test_a_cancelled_stop_leaves_the_node_ready_and_reachable(cloud: Any) -> None:
    await cloud.create()
    cloud.control.set_time_scale(0.001)
    request = tpu_v2.StopNodeRequest(name=cloud.emulator.node_name("n1"))
    name = (await cloud.client.stop_node(request)).operation.name

    await cloud.client.cancel_operation(operations_pb2.CancelOperationRequest(name=name))

    assert (await cloud.get()).state == State.READY
    assert cloud.control.billing() == [cloud.emulator.node_name("n1")]
    assert (await cloud.guest_items())[0]["hostkeys/ssh-ed25519"]


async def test_a_delete_that_ended_a_create_cannot_be_cancelled(cloud: Any) -> None:
    cloud.control.pause()
    await cloud.ask_for_node()
    deletion = await cloud.client.delete_node(name=cloud.emulator.node_name("n1"))

    await cloud.client.cancel_operation(operations_pb2.CancelOperationRequest(name=deletion.operation.name))
    shown = await show(cloud, deletion.operation.name)
    cloud.control.advance(30)

    metadata = tpu_v2.OperationMetadata.pb()()
    assert shown.metadata.Unpack(metadata)
    assert (shown.done, metadata.cancel_requested) == (False, True)
    assert (await show(cloud, deletion.operation.name)).done
    assert await names(cloud) == []


async def test_a_failed_delete_lets_a_create_go_on(cloud: Any) -> None:
    cloud.control.pause()
    await cloud.ask_for_node()
    cloud.control.add_fault("DeleteNode", "operation_error", code="INTERNAL", message="failed")

    await cloud.client.delete_node(name=cloud.emulator.node_name("n1"))
    cloud.control.advance(90)

    assert (await cloud.get()).state == State.READY
    assert len(cloud.control.billing()) == 1


async def test_a_stuck_operation_never_ends_though_the_node_is_ready(cloud: Any) -> None:
    cloud.control.add_fault("CreateNode", "stuck")
    operation = await cloud.ask_for_node()

    while (await cloud.get()).state != State.READY:
        cloud.control.advance(1)
    cloud.control.advance(10_000)

    assert not (await show(cloud, operation.operation.name)).done


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("api_disabled", exceptions.PermissionDenied, "Cloud TPU API has not been used in project"),
        ("permission_denied", exceptions.PermissionDenied, "Permission 'tpu.nodes.create' denied on"),
        ("not_allowlisted", exceptions.PermissionDenied, 'requests for accelerator type "v5litepod-8" in location'),
        ("location_denied", exceptions.PermissionDenied, "Permission denied on 'locations/us-central1-a'"),
        ("quota", exceptions.ResourceExhausted, "has been exceeded. Limit: 0 in zone us-central1-a."),
        ("unavailable", exceptions.ServiceUnavailable, "currently unavailable"),
        ("drop", exceptions.ServiceUnavailable, "Connection reset by peer"),
        ("error", exceptions.ServiceUnavailable, "currently unavailable"),
    ],
)
async def test_a_scripted_refusal_hits_one_call_and_makes_nothing(
    cloud: Any, kind: str, error: type[Exception], words: str
) -> None:
    cloud.control.add_fault("CreateNode", kind)

    with pytest.raises(error, match=words):
        await cloud.ask_for_node()

    assert await names(cloud) == []
    assert cloud.control.faults() == []
    await cloud.create()


async def test_an_applied_call_whose_answer_is_lost_took_effect(cloud: Any) -> None:
    cloud.control.add_fault("CreateNode", "applied_then_drop")

    with pytest.raises(exceptions.ServiceUnavailable):
        await cloud.ask_for_node()

    assert await names(cloud) == [cloud.emulator.node_name("n1")]


async def test_a_slow_call_keeps_no_other_call_waiting(cloud: Any) -> None:
    cloud.control.add_fault("GetNode", "latency", seconds=600)
    slow = asyncio.ensure_future(cloud.get())

    assert await asyncio.wait_for(names(cloud), 120) == []
    slow.cancel()


async def test_faults_are_consumed_in_order_and_counted(cloud: Any) -> None:
    cloud.control.add_fault("ListNodes", "error", code="INTERNAL", message="first", times=2)
    cloud.control.add_fault("*", "error", code="ABORTED", message="second")

    for words in ("first", "first", "second"):
        with pytest.raises(exceptions.GoogleAPICallError, match=words):
            await names(cloud)
    assert await names(cloud) == []


def test_an_unknown_kind_of_fault_is_refused_with_the_list_of_kinds(emulator: Any) -> None:
    with pytest.raises(ControlRefused, match="applied_then_drop"):
        emulator.control.add_fault("GetNode", "earthquake")


def test_every_behaviour_has_a_standing_and_a_source(emulator: Any) -> None:
    found = emulator.control.behaviours()

    assert {each["standing"] for each in found} == {"recorded", "documented", "assumed"}
    assert all(each["statement"] and each["source"] for each in found)
    assert {"E1-stock-out", "E2-quota", "E14-exists"} <= {each["name"] for each in found}
