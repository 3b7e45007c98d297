"""The door in use, against the emulated cloud."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.cloud import tpu_v2

from jupyter_tpu.cloud import CloudApi, connect_cloud, protos
from jupyter_tpu.errors import CloudUnavailable, NodeNotFound
from jupyter_tpu.models import NodeName, NodeSpec


@pytest.fixture
async def cloud(emulator: Any) -> AsyncIterator[CloudApi]:
    opened = await connect_cloud(emulator.settings)
    yield opened
    await opened.aclose()


async def is_ready(cloud: CloudApi, name: NodeName) -> None:
    """Return when the node is READY; the emulator tells nobody by itself."""
    for _ in range(2400):
        if (await cloud.get_node(name)).state == "READY":
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{name} did not become READY")


async def test_the_project_lists_zones_types_and_versions(cloud: CloudApi, emulator: Any) -> None:
    assert emulator.zone in await cloud.list_zones()
    assert "v5litepod-8" in await cloud.list_accelerator_types(emulator.zone)
    assert emulator.runtime_version in await cloud.list_runtime_versions(emulator.zone)


async def test_changed_metadata_keeps_what_others_put_there(cloud: CloudApi, emulator: Any) -> None:
    name = NodeName.parse(emulator.node_name("my-node"))
    wanted = NodeSpec(
        name=name,
        accelerator_type="v5litepod-8",
        runtime_version=emulator.runtime_version,
        metadata={"theirs": "1", "ssh-keys": "me:ssh-ed25519 AAAA"},
    )
    await cloud.create_node(wanted)
    await is_ready(cloud, name)
    operation = await cloud.update_node_metadata(name, {"ours": "2"})
    assert operation.verb == "update"
    for _ in range(2400):
        if (await cloud.get_operation(operation.name)).done:
            break
        await asyncio.sleep(0.05)
    assert {"theirs": "1", "ours": "2"}.items() <= (await cloud.get_node(name)).metadata.items()


async def test_a_read_is_tried_again_when_the_cloud_is_briefly_unavailable(cloud: CloudApi, emulator: Any) -> None:
    emulator.control.add_fault("ListNodes", "unavailable", times=2)
    assert (await cloud.list_nodes()).nodes == ()
    assert emulator.control.faults() == []


async def test_a_change_is_asked_for_once_only(cloud: CloudApi, emulator: Any) -> None:
    emulator.control.add_fault("DeleteNode", "unavailable", times=2)
    with pytest.raises(CloudUnavailable):
        await cloud.delete_node(NodeName.parse(emulator.node_name("my-node")))
    assert len(emulator.control.faults()) == 1


async def test_a_missing_node_is_not_found(cloud: CloudApi, emulator: Any) -> None:
    with pytest.raises(NodeNotFound, match="Could not read node 'ghost'"):
        await cloud.get_node(NodeName.parse(emulator.node_name("ghost")))


def test_a_state_newer_than_the_client_is_kept_and_shown() -> None:
    message = tpu_v2.Node.pb(tpu_v2.Node(name="projects/my-project/locations/us-central1-a/nodes/x"))
    message.state = 17
    assert protos.node_of(message).state == "UNKNOWN(17)"


def test_a_node_with_two_networks_has_one_worker_per_vm() -> None:
    node = tpu_v2.Node(
        name="projects/my-project/locations/us-central1-a/nodes/x",
        network_configs=[tpu_v2.NetworkConfig(), tpu_v2.NetworkConfig()],
        network_endpoints=[tpu_v2.NetworkEndpoint(ip_address=f"10.0.0.{number}") for number in range(4)],
    )
    workers = protos.node_of(tpu_v2.Node.pb(node)).workers
    assert [(worker.worker_id, worker.ip_address) for worker in workers] == [(0, "10.0.0.0"), (1, "10.0.0.2")]
