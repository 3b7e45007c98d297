"""tpunicorn2, a third party's REST client, against the emulated cloud."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import requests
from tpunicorn import api

NODE = {"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite", "schedulingConfig": {"spot": True}}


@pytest.fixture
def client(emulator: Any, monkeypatch: pytest.MonkeyPatch) -> api.Client:
    """Its address is a constant of its module, and the only way to point it elsewhere."""
    monkeypatch.setattr(api, "API_ROOT", f"{emulator.rest}/v2")
    return api.Client(emulator.project, session_factory=requests.Session)


@pytest.fixture
def finished(client: api.Client, emulator: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def wait(operation: dict[str, Any]) -> dict[str, Any]:
        emulator.control.advance(1000)
        return client.wait_operation(operation, poll_interval=0.05, timeout=120)

    return wait


def test_a_node_lives_from_create_to_delete(client: api.Client, emulator: Any, finished: Any) -> None:
    zone = emulator.zone
    created = finished(client.create_node(zone, "n1", NODE))

    assert (created["name"], created["state"]) == (emulator.node_name("n1"), "READY")
    assert client.get_node(zone, "n1")["acceleratorConfig"] == {"type": "V5LITE_POD", "topology": "2x4"}
    assert [worker["queryPath"] for worker in client.get_guest_attributes(zone, "n1", query_path="hostkeys/")] == [
        "hostkeys/"
    ]
    assert [node["name"] for node in client.list_nodes_multi([zone, "us-east5-a"])] == [created["name"]]
    finished(client.delete_node(zone, "n1"))
    with pytest.raises(api.TpuApiError) as missing:
        client.get_node(zone, "n1")
    assert (missing.value.status, missing.value.reason) == (404, "NOT_FOUND")


def test_a_queued_resource_lives_from_create_to_delete(client: api.Client, emulator: Any, finished: Any) -> None:
    zone = emulator.zone
    spec = {"parent": emulator.parent, "nodeId": "n1", "node": NODE}
    finished(client.create_queued_resource(zone, "q1", {"tpu": {"nodeSpec": [spec]}, "spot": {}}))

    assert [each["name"] for each in client.list_queued_resources_multi([zone])] == [
        f"{emulator.parent}/queuedResources/q1"
    ]
    finished(client.delete_queued_resource(zone, "q1"))
    assert client.list_queued_resources(zone) == []


def test_a_stock_out_is_an_operation_that_failed(client: api.Client, emulator: Any, finished: Any) -> None:
    emulator.control.add_fault("CreateNode", "stockout")

    with pytest.raises(api.OperationError) as failed:
        finished(client.create_node(emulator.zone, "n1", NODE))

    assert failed.value.reason == "RESOURCE_EXHAUSTED"


def test_it_lists_where_there_is_what(client: api.Client, emulator: Any) -> None:
    assert emulator.zone in client.list_locations()
    assert "v5litepod-8" in client.list_accelerator_types(emulator.zone)
    assert "v2-alpha-tpuv5-lite" in client.list_runtime_versions(emulator.zone)
