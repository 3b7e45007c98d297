"""Maintenance of nodes through Google's clients: announced, started by hand, simulated; and what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc.aio
import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import tpu_v2, tpu_v2alpha1
from google.cloud.tpu_v2alpha1.services.tpu.transports import TpuGrpcAsyncIOTransport
from googleapiclient import discovery

State, Health = tpu_v2.Node.State, tpu_v2.Node.Health
WEEK_S = 7 * 86_400


@pytest.fixture
async def alpha(emulator: Any) -> AsyncIterator[tpu_v2alpha1.TpuAsyncClient]:
    """Google's client for v2alpha1."""
    async with grpc.aio.insecure_channel(emulator.grpc) as channel:
        transport = TpuGrpcAsyncIOTransport(channel=channel, host=emulator.grpc)
        yield tpu_v2alpha1.TpuAsyncClient(transport=transport)


@pytest.fixture
def rest(emulator: Any) -> Iterator[Any]:
    """googleapiclient for v2, which shows what the protobufs lack."""
    options = {"api_endpoint": f"{emulator.rest}/"}
    service = discovery.build(
        "tpu", "v2", credentials=AnonymousCredentials(), client_options=options, static_discovery=True
    )
    yield service.projects().locations().nodes()
    service.close()


@pytest.fixture
async def node(cloud: Any) -> tpu_v2.Node:
    """A READY node in a cloud whose time stands still."""
    made = await cloud.create()
    cloud.control.pause()
    return made


async def simulate(alpha: Any, node: tpu_v2.Node, *worker_ids: str) -> Any:
    request = tpu_v2alpha1.SimulateMaintenanceEventRequest(name=node.name, worker_ids=worker_ids)
    return await alpha.simulate_maintenance_event(request)


async def perform(alpha: Any, node: tpu_v2.Node) -> Any:
    return await alpha.perform_maintenance(tpu_v2alpha1.PerformMaintenanceRequest(name=node.name))


async def upcoming(rest: Any, node: tpu_v2.Node) -> dict[str, Any] | None:
    shown = await asyncio.to_thread(rest.get(name=node.name).execute)
    found: dict[str, Any] | None = shown.get("upcomingMaintenance")
    return found


async def test_a_simulated_event_repairs_the_node_and_gives_it_back(cloud: Any, alpha: Any, node: Any) -> None:
    operation = await simulate(alpha, node)

    repairing = await cloud.get()
    assert (repairing.state, repairing.health) == (State.REPAIRING, Health.UNHEALTHY_MAINTENANCE)
    assert await cloud.guest_items() == [{}]
    assert not await operation.done()

    cloud.control.advance(300)
    ready = await operation.result(timeout=120)
    assert (ready.state.name, ready.health.name) == ("READY", "HEALTHY")
    assert "hostkeys/ssh-ed25519" in (await cloud.guest_items())[0]
    assert (await cloud.get()).health_description == ""


async def test_maintenance_is_not_billed(cloud: Any, alpha: Any, node: Any) -> None:
    (before,) = cloud.control.ledger()["nodes"]
    await simulate(alpha, node)
    assert cloud.control.billing() == []

    cloud.control.advance(300)
    assert cloud.control.billing() == [node.name]
    cloud.control.advance(100)

    (after,) = cloud.control.ledger()["nodes"]
    assert 100 <= after["ready_seconds"] - before["ready_seconds"] <= 101


async def test_scheduled_maintenance_is_announced_a_week_ahead_and_comes(cloud: Any, rest: Any, node: Any) -> None:
    cloud.control.announce_maintenance(node.name)

    shown = await upcoming(rest, node)
    assert shown is not None
    assert (shown["type"], shown["maintenanceStatus"], shown["canReschedule"]) == ("SCHEDULED", "PENDING", True)
    assert shown["windowStartTime"] == shown["latestWindowStartTime"] < shown["windowEndTime"]

    cloud.control.advance(WEEK_S - 10)
    assert (await cloud.get()).state == State.READY
    cloud.control.advance(20)
    assert (await cloud.get()).state == State.REPAIRING
    shown = await upcoming(rest, node)
    assert shown is not None
    assert (shown["maintenanceStatus"], shown.get("canReschedule", False)) == ("ONGOING", False)

    cloud.control.advance(300)
    assert (await cloud.get()).state == State.READY
    assert await upcoming(rest, node) is None


async def test_pending_maintenance_can_be_started_by_hand(cloud: Any, alpha: Any, rest: Any, node: Any) -> None:
    with pytest.raises(exceptions.FailedPrecondition):
        await perform(alpha, node)
    cloud.control.announce_maintenance(node.name)

    operation = await perform(alpha, node)
    assert (await cloud.get()).state == State.REPAIRING
    with pytest.raises(
        exceptions.InvalidArgument, match="performMaintenance is not supported while in state REPAIRING"
    ):
        await perform(alpha, node)

    cloud.control.advance(300)
    assert (await operation.result(timeout=120)).state.name == "READY"
    cloud.control.advance(WEEK_S)
    assert (await cloud.get()).state == State.READY
    assert await upcoming(rest, node) is None


async def test_unscheduled_maintenance_cannot_be_started_by_hand(cloud: Any, alpha: Any, node: Any) -> None:
    cloud.control.announce_maintenance(node.name, "UNSCHEDULED", in_s=600)

    with pytest.raises(exceptions.FailedPrecondition):
        await perform(alpha, node)

    cloud.control.advance(600)
    assert (await cloud.get()).state == State.REPAIRING


async def test_maintenance_outlives_a_restart(cloud: Any, alpha: Any, rest: Any, node: Any) -> None:
    cloud.control.resume()
    other = await cloud.create("n2")
    cloud.control.pause()
    cloud.control.announce_maintenance(other.name, in_s=1_000)
    announced = await upcoming(rest, other)
    await simulate(alpha, node)

    cloud.emulator.restart()
    await cloud.reconnect()

    assert [(await cloud.get(each)).state for each in ("n1", "n2")] == [State.REPAIRING, State.READY]
    assert await upcoming(rest, other) == announced
    cloud.control.advance(990)
    assert [(await cloud.get(each)).state for each in ("n1", "n2")] == [State.READY, State.READY]
    cloud.control.advance(20)
    assert [(await cloud.get(each)).state for each in ("n1", "n2")] == [State.READY, State.REPAIRING]


async def test_a_node_can_be_deleted_while_it_is_maintained(cloud: Any, alpha: Any, node: Any) -> None:
    operation = await simulate(alpha, node)
    await cloud.client.delete_node(name=node.name)

    cloud.control.advance(400)

    with pytest.raises(exceptions.NotFound):
        await cloud.get()
    with pytest.raises(exceptions.GoogleAPICallError):
        await operation.result(timeout=120)
    assert cloud.control.maintenance() == []


@pytest.mark.parametrize("worker_id", ["1", "-1", "one", "²"])
async def test_a_simulated_event_needs_a_worker_of_the_node(alpha: Any, node: Any, worker_id: str) -> None:
    with pytest.raises(exceptions.InvalidArgument, match="is not valid"):
        await simulate(alpha, node, worker_id)


async def test_only_a_ready_node_has_a_simulated_event(cloud: Any, alpha: Any) -> None:
    node = await cloud.create()
    await cloud.stop()

    with pytest.raises(exceptions.InvalidArgument, match="is not supported while in state STOPPED"):
        await simulate(alpha, node)
    with pytest.raises(exceptions.NotFound):
        await simulate(alpha, tpu_v2.Node(name=cloud.emulator.node_name("missing")))


async def test_reservations_are_listed_with_their_use(cloud: Any, alpha: Any) -> None:
    cloud.control.reserve("r1", cloud.emulator.zone, "v5e", 16)
    cloud.control.reserve("r2", "us-south1-a", "v5e", 8)
    await cloud.create(scheduling_config=tpu_v2.SchedulingConfig(reserved=True))

    async def listed(zone: str) -> list[tuple[str, int, int]]:
        parent = f"projects/{cloud.emulator.project}/locations/{zone}"
        request = tpu_v2alpha1.ListReservationsRequest(parent=parent)
        found = [each async for each in await alpha.list_reservations(request)]
        return [(each.name.rpartition("/")[2], each.standard.size, each.standard.usage.total) for each in found]

    assert await listed(cloud.emulator.zone) == [("r1", 16, 8)]
    assert await listed("-") == [("r1", 16, 8), ("r2", 8, 0)]


@pytest.mark.parametrize(
    ("chips", "code", "words"),
    [(0, 5, "Reservation not found"), (4, 8, "Insufficient reserved capacity. Contact customer support to increase")],
)
async def test_a_reserved_node_without_a_reservation_is_rolled_back(
    cloud: Any, chips: int, code: int, words: str
) -> None:
    cloud.control.reserve("r1", cloud.emulator.zone, "v5e", chips)
    operation = await cloud.ask_for_node(scheduling_config=tpu_v2.SchedulingConfig(reserved=True))

    with pytest.raises(exceptions.GoogleAPICallError):
        await operation.result(timeout=120)

    error = operation.operation.error
    assert error.code == code
    assert error.message.startswith(words)
    with pytest.raises(exceptions.NotFound):
        await cloud.get()


async def test_the_nodes_of_a_queued_resource_are_maintained_together(cloud: Any, alpha: Any, emulator: Any) -> None:
    name = f"{emulator.parent}/queuedResources/q1"
    cloud.control.pause()
    await queue_two(cloud)
    cloud.control.advance(600)
    nodes = [emulator.node_name(f"n-{number}") for number in range(2)]
    for each in nodes:
        cloud.control.announce_maintenance(each)
    assert [info["nodeName"] for info in await maintenance_info(emulator, name)] == ["n-0", "n-1"]

    request = tpu_v2alpha1.PerformMaintenanceQueuedResourceRequest(name=name, node_names=["n-1"])
    operation = await alpha.perform_maintenance_queued_resource(request)
    states = [(await cloud.client.get_node(name=each)).state for each in nodes]
    assert states == [State.READY, State.REPAIRING]
    assert not await operation.done()

    cloud.control.advance(300)
    result = await operation.result(timeout=120)
    assert (result.name, result.state.state.name) == (name, "ACTIVE")
    assert [info["nodeName"] for info in await maintenance_info(emulator, name)] == ["n-0"]
    request.node_names = ["n-7"]
    with pytest.raises(exceptions.InvalidArgument, match="is not a node of the queued resource"):
        await alpha.perform_maintenance_queued_resource(request)


async def queue_two(cloud: Any) -> None:
    """A queued resource ``q1`` of the nodes ``n-0`` and ``n-1``."""
    tpu = tpu_v2.QueuedResource.Tpu
    emulator = cloud.emulator
    slices = tpu.NodeSpec.MultisliceParams(node_count=2, node_id_prefix="n")
    node = tpu_v2.Node(accelerator_type=emulator.accelerator_type, runtime_version=emulator.runtime_version)
    queued = tpu_v2.QueuedResource(
        tpu=tpu(node_spec=[tpu.NodeSpec(parent=emulator.parent, multislice_params=slices, node=node)])
    )
    await cloud.client.create_queued_resource(parent=emulator.parent, queued_resource_id="q1", queued_resource=queued)


async def maintenance_info(emulator: Any, name: str) -> list[dict[str, Any]]:
    options = {"api_endpoint": f"{emulator.rest}/"}
    service = discovery.build(
        "tpu", "v2alpha1", credentials=AnonymousCredentials(), client_options=options, static_discovery=True
    )
    request = service.projects().locations().queuedResources().getMaintenanceInfo(name=name)
    found = await asyncio.to_thread(request.execute)
    service.close()
    return list(found.get("nodeUpcomingMaintenances", []))


async def test_a_reset_forgets_what_was_announced(cloud: Any, node: Any) -> None:
    cloud.control.announce_maintenance(node.name)
    cloud.control.reserve("r1", cloud.emulator.zone, "v5e", 8)

    cloud.control.reset()

    assert cloud.control.maintenance() == []
    assert cloud.control.state()["reservations"] == []
