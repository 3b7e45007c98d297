"""The REST face against the discovery document that Google publishes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

import aiohttp
import pytest

UNFILLED = {
    "projectsId": "demo-project",
    "locationsId": "us-central1-a",
    "nodesId": "n1",
    "operationsId": "operation-1",
    "acceleratorTypesId": "v5litepod-8",
    "runtimeVersionsId": "v2-alpha-tpuv5-lite",
    "queuedResourcesId": "q1",
    "reservationsId": "r1",
}


def methods_of(resource: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from resource.get("methods", {}).values()
    for child in resource.get("resources", {}).values():
        yield from methods_of(child)


def discovered() -> list[Any]:
    document = resources.files("googleapiclient") / "discovery_cache" / "documents" / "tpu.v2.json"
    return [pytest.param(each, id=each["id"]) for each in methods_of(json.loads(document.read_text()))]


@pytest.fixture
def url(emulator: Any) -> str:
    return emulator.rest


async def test_every_method_of_the_discovery_document_is_served_or_says_unimplemented(url: str) -> None:
    answers = {}
    async with aiohttp.ClientSession() as session:
        for parameter in discovered():
            method = parameter.values[0]
            path = method["flatPath"].format(**UNFILLED)
            async with session.request(method["httpMethod"], f"{url}/{path}", json={}) as answer:
                error = (await answer.json()).get("error", {})
                answers[method["id"]] = (answer.status, error.get("message", ""))

    unrouted = {name: answer for name, answer in answers.items() if "no route" in answer[1]}
    unimplemented = sorted(name for name, (status, _) in answers.items() if status == 501)
    assert unrouted == {}
    assert all("queuedResources" in name or "generateServiceIdentity" in name for name in unimplemented), unimplemented


async def test_a_running_operation_prints_done_false(url: str, emulator: Any) -> None:
    node = {"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite"}
    nodes = f"{url}/v2/{emulator.parent}/nodes"
    async with aiohttp.ClientSession() as session, session.post(f"{nodes}?nodeId=n1", json=node) as answer:
        operation = await answer.json()

    assert operation["done"] is False
    assert operation["metadata"]["@type"] == "type.googleapis.com/google.cloud.tpu.v2.OperationMetadata"
    assert (operation["metadata"]["verb"], operation["metadata"]["apiVersion"]) == ("create", "v2")


@pytest.mark.parametrize("mask", ["dataDisks", "data_disks", "labels,description"])
async def test_masks_may_be_written_in_either_case(url: str, emulator: Any, mask: str) -> None:
    node = {"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite"}
    nodes = f"{url}/v2/{emulator.parent}/nodes"
    async with aiohttp.ClientSession() as session:
        await (await session.post(f"{nodes}?nodeId=n1", json=node)).json()
        emulator.control.advance(1000)
        while (await (await session.get(f"{nodes}/n1")).json())["state"] != "READY":
            emulator.control.advance(1)
        body = {"description": "new", "labels": {"a": "b"}, "dataDisks": [{"sourceDisk": "d"}], "state": "PREEMPTED"}
        answer = await session.patch(f"{nodes}/n1?updateMask={mask}", json=body)
        shown = await (await session.get(f"{nodes}/n1")).json()

    assert answer.status == 200, await answer.text()
    assert shown["state"] == "READY"
    assert ("dataDisks" in shown) == mask.startswith("data")
    assert ("labels" in shown) == mask.startswith("labels")


@pytest.mark.parametrize(
    ("verb", "path", "status", "word"),
    [
        ("GET", "/v2/projects/other/locations/us-central1-a/nodes", 403, "PERMISSION_DENIED"),
        ("GET", "/v2/projects/demo-project/locations/mars-1a/nodes", 403, "PERMISSION_DENIED"),
        ("GET", "/v2/projects/demo-project/locations/-/nodes?pageToken=forged", 400, "INVALID_ARGUMENT"),
        ("GET", "/v2/projects/demo-project/locations/-/nodes?pageSize=many", 400, "INVALID_ARGUMENT"),
        ("GET", "/v1/anything", 404, "NOT_FOUND"),
        ("GET", "/v2/projects/demo-project/locations/us-central1-a/queuedResources", 501, "UNIMPLEMENTED"),
    ],
)
async def test_errors_come_in_googles_envelope(url: str, verb: str, path: str, status: int, word: str) -> None:
    async with aiohttp.ClientSession() as session, session.request(verb, f"{url}{path}") as answer:
        body = await answer.json()

    assert (answer.status, body["error"]["code"], body["error"]["status"]) == (status, status, word)
    assert body["error"]["message"]
