"""Zones that run out of chips or addresses, through Google's client: single nodes fail, queued resources wait."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2

FAMILY = "v5e"
QueuedState = tpu_v2.QueuedResourceState.State
E1 = (
    'There is no more capacity in the zone "us-central1-a"; you can try in another zone where Cloud TPU Nodes are '
    "offered (see https://cloud.google.com/tpu/docs/regions) [EID: 0x"
)


async def queue(cloud: Any, queued_id: str = "q1", accelerator_type: str = "v5litepod-8") -> None:
    """A queued resource of one node, asked for."""
    tpu = tpu_v2.QueuedResource.Tpu
    node = tpu_v2.Node(accelerator_type=accelerator_type, runtime_version=cloud.emulator.runtime_version)
    node.network_config = tpu_v2.NetworkConfig(enable_external_ips=True)
    spec = tpu.NodeSpec(parent=cloud.emulator.parent, node_id=f"{queued_id}-n", node=node)
    await cloud.client.create_queued_resource(
        parent=cloud.emulator.parent,
        queued_resource_id=queued_id,
        queued_resource=tpu_v2.QueuedResource(tpu=tpu(node_spec=[spec])),
    )


async def state_of(cloud: Any, queued_id: str = "q1") -> tpu_v2.QueuedResourceState:
    name = f"{cloud.emulator.parent}/queuedResources/{queued_id}"
    return (await cloud.client.get_queued_resource(name=name)).state


async def failure_of(operation: Any) -> Any:
    """The ``google.rpc.Status`` that an operation ended with."""
    with pytest.raises(exceptions.GoogleAPICallError):
        await operation.result(timeout=120)
    return operation.operation.error


async def test_a_create_without_capacity_fails_after_half_a_minute_and_leaves_nothing(cloud: Any) -> None:
    cloud.control.pause()
    cloud.control.set_capacity(cloud.emulator.zone, FAMILY, 4)

    operation = await cloud.ask_for_node()
    cloud.control.advance(29)
    assert not await operation.done()
    cloud.control.advance(2)

    error = await failure_of(operation)
    assert (error.code, error.message[: len(E1)]) == (8, E1)
    with pytest.raises(exceptions.NotFound):
        await cloud.get()


async def test_a_start_without_capacity_fails_and_the_node_stays_stopped(cloud: Any) -> None:
    await cloud.create()
    await cloud.stop()
    cloud.control.stock_out(cloud.emulator.zone)
    request = tpu_v2.StartNodeRequest(name=cloud.emulator.node_name("n1"))

    error = await failure_of(await cloud.client.start_node(request))

    assert (error.code, error.message[: len(E1)]) == (8, E1)
    assert (await cloud.get()).state == tpu_v2.Node.State.STOPPED


async def test_a_stopped_node_gives_its_chips_back(cloud: Any) -> None:
    cloud.control.set_capacity(cloud.emulator.zone, FAMILY, 8)
    await cloud.create()
    await cloud.stop()

    await cloud.create("n2")

    assert cloud.control.capacity()[0]["used"] == 8


async def test_a_stock_out_for_a_while_is_over_after_it(cloud: Any) -> None:
    cloud.control.pause()
    cloud.control.stock_out(cloud.emulator.zone, FAMILY, for_s=600)
    assert (await failed_in(cloud, "n1")).code == 8

    cloud.control.advance(600)

    operation = await cloud.ask_for_node("n2")
    cloud.control.advance(100)
    assert (await operation.result(timeout=120)).name.endswith("/n2")


async def failed_in(cloud: Any, node_id: str) -> Any:
    operation = await cloud.ask_for_node(node_id)
    cloud.control.advance(31)
    return await failure_of(operation)


async def test_a_queued_resource_waits_for_the_moment_of_the_script(cloud: Any) -> None:
    cloud.control.pause()
    cloud.control.script_capacity(cloud.emulator.zone, FAMILY, [(0, 0), (3_600, 8)])
    await queue(cloud)

    cloud.control.advance(3_500)
    assert (await state_of(cloud)).state == QueuedState.WAITING_FOR_RESOURCES
    cloud.control.advance(1_000)
    assert (await state_of(cloud)).state == QueuedState.ACTIVE
    assert (await cloud.get("q1-n")).state == tpu_v2.Node.State.READY


async def test_chips_that_are_given_back_go_to_the_queue(cloud: Any) -> None:
    cloud.control.set_capacity(cloud.emulator.zone, FAMILY, 8)
    await cloud.create()
    cloud.control.pause()
    await queue(cloud)
    cloud.control.advance(600)
    assert (await state_of(cloud)).state == QueuedState.WAITING_FOR_RESOURCES

    await cloud.client.delete_node(name=cloud.emulator.node_name("n1"))
    cloud.control.advance(600)

    assert (await state_of(cloud)).state == QueuedState.ACTIVE


async def test_used_up_addresses_fail_a_queued_resource_and_internal_ones_help(cloud: Any) -> None:
    cloud.control.set_project(addresses_per_region=3)
    cloud.control.pause()
    await queue(cloud, accelerator_type="v5litepod-16")

    seen = set()
    for _ in range(40):
        cloud.control.advance(10)
        seen.add((await state_of(cloud)).state)

    state = await state_of(cloud)
    assert state.state == QueuedState.FAILED
    assert state.failed_data.error.message.startswith("You have reached IN_USE_ADDRESSES limit. [EID: 0x")
    assert QueuedState.SUSPENDING in seen
    operation = await cloud.ask_for_node(
        accelerator_type="v5litepod-16", network_config=tpu_v2.NetworkConfig(enable_external_ips=False)
    )
    cloud.control.advance(100)
    assert (await operation.result(timeout=120)).state == tpu_v2.Node.State.READY


async def test_capacity_outlives_a_restart(cloud: Any) -> None:
    cloud.control.pause()
    cloud.control.set_capacity(cloud.emulator.zone, FAMILY, 64, seed=5)
    before = cloud.control.capacity()[0]

    cloud.emulator.restart()

    after = cloud.control.capacity()[0]
    assert (after["seed"], after["chips"], after["next_change"]) == (5, before["chips"], before["next_change"])
