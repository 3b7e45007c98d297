"""Many nodes and operations; how fast it is, `python -m benchmarks.emulator` measures."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport
from google.longrunning import operations_pb2
from paper_emulator import PaperEmulator

from jupyter_tpu.emulator.control.client import EmulatorControl

ZONE = "projects/demo-project/locations/us-central1-a"
OTHER_ZONE = "projects/demo-project/locations/us-west4-a"
NODE = tpu_v2.Node(accelerator_type="v5litepod-1", runtime_version="v2-alpha-tpuv5-lite")
COUNT = 200


@pytest.fixture(scope="module")
def emulator_on_paper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PaperEmulator]:
    emulator = PaperEmulator(tmp_path_factory.mktemp("paper"))
    emulator.start()
    yield emulator
    emulator.close()


@pytest.fixture(scope="module")
def client(emulator_on_paper: PaperEmulator) -> Iterator[Any]:
    EmulatorControl(emulator_on_paper.rest)._request("POST", "project", {"creates_per_minute": None})
    with grpc.insecure_channel(emulator_on_paper.grpc) as channel:
        yield tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel, host=emulator_on_paper.grpc))


@pytest.fixture(scope="module")
def operations(client: Any) -> list[Any]:
    """Creates of many nodes, as they were answered."""
    with ThreadPoolExecutor(8) as pool:
        ids = [f"n{index:03d}" for index in range(COUNT)]
        asked = pool.map(lambda node_id: client.create_node(parent=ZONE, node_id=node_id, node=NODE), ids)
        return [each.operation for each in asked]


def test_many_operations_are_in_flight_together_and_all_end(
    client: Any, emulator_on_paper: PaperEmulator, operations: list[Any]
) -> None:
    assert not any(operation.done for operation in operations)

    EmulatorControl(emulator_on_paper.rest).advance(100)

    ended = [client.get_operation(operations_pb2.GetOperationRequest(name=each.name)) for each in operations]
    assert all(operation.done and not operation.HasField("error") for operation in ended)
    assert len({operation.name for operation in ended}) == COUNT


@pytest.mark.parametrize("size", [7, 199, 200, 0])
@pytest.mark.usefixtures("operations")
def test_pages_of_any_size_show_every_node_once_and_in_order(client: Any, size: int) -> None:
    listed = client.list_nodes(tpu_v2.ListNodesRequest(parent=ZONE, page_size=size))

    assert [node.name for node in listed] == [f"{ZONE}/nodes/n{index:03d}" for index in range(COUNT)]


def test_a_node_that_is_made_or_deleted_meanwhile_hides_no_other(client: Any, emulator_on_paper: PaperEmulator) -> None:
    for node_id in ("b", "c", "d", "e"):
        client.create_node(parent=OTHER_ZONE, node_id=node_id, node=NODE)
    first = client.list_nodes(tpu_v2.ListNodesRequest(parent=OTHER_ZONE, page_size=2)).raw_page
    client.create_node(parent=OTHER_ZONE, node_id="a", node=NODE)
    client.delete_node(name=f"{OTHER_ZONE}/nodes/c")
    EmulatorControl(emulator_on_paper.rest).advance(100)

    listed = client.list_nodes(tpu_v2.ListNodesRequest(parent=OTHER_ZONE, page_token=first.next_page_token))

    assert [node.name.rpartition("/")[2] for node in listed] == ["d", "e"]
