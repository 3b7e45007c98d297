"""What the door makes of an API that misbehaves: each scripted fault becomes one of our errors, or nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.cloud import tpu_v2

from jupyter_tpu.cloud import CloudApi, CloudSettings, connect_cloud
from jupyter_tpu.errors import CloudUnavailable, NodeNotFound, TpuError
from jupyter_tpu.models import NodeName, NodeSpec


@pytest.fixture
async def cloud(emulator: Any) -> AsyncIterator[CloudApi]:
    opened = await connect_cloud(emulator.settings)
    yield opened
    await opened.aclose()


@pytest.fixture
async def name(cloud: CloudApi, emulator: Any) -> NodeName:
    """Of a node that is CREATING, in a time that stands still."""
    emulator.control.pause()
    wanted = NodeName.parse(emulator.node_name("my-node"))
    await cloud.create_node(
        NodeSpec(name=wanted, accelerator_type="v5litepod-8", runtime_version=emulator.runtime_version)
    )
    return wanted


@pytest.mark.parametrize("kind", ["empty", "truncated"])
async def test_an_answer_that_is_none_is_the_clouds_fault(
    cloud: CloudApi, emulator: Any, name: NodeName, kind: str
) -> None:
    emulator.control.add_fault("GetNode", kind, times=None)

    with pytest.raises(TpuError) as caught:
        await cloud.get_node(name)

    assert not isinstance(caught.value, NodeNotFound)


async def test_a_list_that_cannot_be_read_is_not_an_empty_one(cloud: CloudApi, emulator: Any, name: NodeName) -> None:
    emulator.control.add_fault("ListNodes", "truncated", times=None)

    with pytest.raises(TpuError, match="list the nodes"):
        await cloud.list_nodes()


@pytest.mark.parametrize("kind", ["drop", "html"])
async def test_a_read_over_a_broken_connection_is_tried_again(
    cloud: CloudApi, emulator: Any, name: NodeName, kind: str
) -> None:
    emulator.control.add_fault("GetNode", kind)

    assert (await cloud.get_node(name)).state == "CREATING"
    assert emulator.control.faults() == []


@pytest.mark.parametrize("code", [429, 500, 503, 504])
async def test_a_create_that_is_refused_by_the_servers_says_so_in_their_words(
    cloud: CloudApi, emulator: Any, code: int
) -> None:
    emulator.control.add_fault("CreateNode", "error", code=code, message="words of the servers")
    wanted = NodeSpec(
        name=NodeName.parse(emulator.node_name("other")),
        accelerator_type="v5litepod-8",
        runtime_version=emulator.runtime_version,
    )

    with pytest.raises(TpuError) as caught:
        await cloud.create_node(wanted)

    assert "words of the servers" in caught.value.raw
    if code in (503, 504):
        assert isinstance(caught.value, CloudUnavailable)


async def test_a_state_that_nobody_knows_is_shown_as_its_number(cloud: CloudApi, emulator: Any, name: NodeName) -> None:
    emulator.control.add_fault("GetNode", "unknown_enum")

    assert (await cloud.get_node(name)).state == "UNKNOWN(99)"


@pytest.fixture
async def partial_cloud() -> AsyncIterator[CloudApi]:
    """A cloud that lists no nodes, and says of which zone it does not know them."""
    answer = tpu_v2.ListNodesResponse(unreachable=["projects/demo-project/locations/us-east1-d"])

    async def list_nodes(_request: bytes, _context: Any) -> bytes:
        return bytes(tpu_v2.ListNodesResponse.serialize(answer))

    handlers = {"ListNodes": grpc.unary_unary_rpc_method_handler(list_nodes)}
    server = grpc.aio.server(handlers=[grpc.method_handlers_generic_handler("google.cloud.tpu.v2.Tpu", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    opened = await connect_cloud(CloudSettings(project="demo-project", endpoint=f"127.0.0.1:{port}"))
    yield opened
    await opened.aclose()
    await server.stop(None)


async def test_a_zone_that_does_not_answer_is_named_beside_the_nodes(partial_cloud: CloudApi) -> None:
    assert (await partial_cloud.list_nodes()).unreachable == ("us-east1-d",)
