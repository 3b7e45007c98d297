"""Nodes that end by themselves or cannot go on: preemptible and spot ones, and those without chips."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2
from google.longrunning import operations_pb2
from google.rpc import code_pb2

State = tpu_v2.Node.State
SPOT = tpu_v2.SchedulingConfig(spot=True)
PREEMPTIBLE = tpu_v2.SchedulingConfig(preemptible=True)
DAY_S = 86_400


@pytest.fixture
def still(cloud: Any) -> Any:
    """A cloud whose time stands still unless a test moves it."""
    cloud.control.pause()
    return cloud


async def made(cloud: Any, node_id: str = "n1", **fields: Any) -> None:
    await cloud.ask_for_node(node_id, **fields)
    cloud.control.advance(90)


async def error_of(cloud: Any, operation: Any) -> Any:
    name = operation.operation.name
    return (await cloud.client.get_operation(operations_pb2.GetOperationRequest(name=name))).error


async def test_a_preemptible_node_ends_after_a_day(still: Any) -> None:
    await made(still, scheduling_config=PREEMPTIBLE)

    still.control.advance(DAY_S - 1)
    assert (await still.get()).state == State.READY
    still.control.advance(1)

    assert (await still.get()).state == State.PREEMPTED
    assert still.control.ledger()["nodes"][0]["ready_seconds"] == DAY_S


async def test_a_spot_node_has_no_such_end(still: Any) -> None:
    await made(still, scheduling_config=SPOT)

    still.control.advance(10 * DAY_S)

    assert (await still.get()).state == State.READY


async def test_a_spot_node_can_be_stopped_but_not_started_again(still: Any) -> None:
    await made(still, scheduling_config=SPOT)
    await still.client.stop_node(tpu_v2.StopNodeRequest(name=still.emulator.node_name("n1")))
    still.control.advance(30)

    with pytest.raises(exceptions.InvalidArgument, match="start is not supported for spot and preemptible nodes"):
        await still.client.start_node(tpu_v2.StartNodeRequest(name=still.emulator.node_name("n1")))

    assert (await still.get()).state == State.STOPPED


async def test_the_project_can_refuse_to_stop_spot_nodes(still: Any) -> None:
    still.control.set_project(stop_refused_for=["spot"])
    await made(still, scheduling_config=SPOT)

    with pytest.raises(exceptions.InvalidArgument, match="stop is not supported for spot and preemptible nodes"):
        await still.client.stop_node(tpu_v2.StopNodeRequest(name=still.emulator.node_name("n1")))


async def test_the_project_can_let_nodes_of_several_workers_stop(still: Any) -> None:
    still.control.set_project(stop_refused_for=[])
    await made(still, accelerator_type="v5litepod-16")

    await still.client.stop_node(tpu_v2.StopNodeRequest(name=still.emulator.node_name("n1")))
    still.control.advance(30)

    assert (await still.get()).state == State.STOPPED


async def test_a_zone_without_room_ends_the_operation_after_half_a_minute(still: Any) -> None:
    still.control.set_capacity(still.emulator.zone, "v5e", 8)
    await made(still)
    second = await still.ask_for_node("n2")

    still.control.advance(29)
    assert (await still.get("n2")).state == State.CREATING
    still.control.advance(1)

    error = await error_of(still, second)
    assert (error.code, "There is no more capacity in the zone" in error.message) == (code_pb2.RESOURCE_EXHAUSTED, True)
    with pytest.raises(exceptions.NotFound):
        await still.get("n2")


async def test_a_stopped_node_may_find_no_chips_when_it_is_started(still: Any) -> None:
    still.control.set_capacity(still.emulator.zone, "v5e", 8)
    await made(still)
    name = still.emulator.node_name("n1")
    await still.client.stop_node(tpu_v2.StopNodeRequest(name=name))
    still.control.advance(30)
    await made(still, "n2")

    start = await still.client.start_node(tpu_v2.StartNodeRequest(name=name))
    still.control.advance(60)

    assert (await error_of(still, start)).code == code_pb2.RESOURCE_EXHAUSTED
    assert (await still.get()).state == State.STOPPED
    assert still.control.billing() == [still.emulator.node_name("n2")]


async def test_two_creates_do_not_both_get_the_last_chips(still: Any) -> None:
    still.control.set_capacity(still.emulator.zone, "v5e", 8)
    operations = [await still.ask_for_node(node_id) for node_id in ("n1", "n2")]

    still.control.advance(90)

    assert [(await error_of(still, each)).code for each in operations] == [0, code_pb2.RESOURCE_EXHAUSTED]
    assert still.control.billing() == [still.emulator.node_name("n1")]


async def test_a_reserved_node_needs_a_reservation(still: Any) -> None:
    reserved = tpu_v2.SchedulingConfig(reserved=True)
    first = await still.ask_for_node(scheduling_config=reserved)
    still.control.advance(30)
    assert (await error_of(still, first)).message == "Reservation not found"

    still.control.reserve("ours", still.emulator.zone, "v5e", 8)
    await made(still, scheduling_config=reserved)

    assert (await still.get()).state == State.READY


async def test_names_with_the_number_of_the_project_mean_the_same_project(still: Any) -> None:
    await made(still)
    by_number = still.emulator.node_name("n1").replace(still.emulator.project, "123456789012")

    node = await still.client.get_node(name=by_number)

    assert node.name == still.emulator.node_name("n1")
