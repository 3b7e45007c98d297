"""The REST face against the discovery documents that Google publishes: every method, in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from discovery_documents import ENVELOPE, FILLED, Method, complaints, full_body, methods
from jsonschema import Draft202012Validator

NODE = {"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite", "labels": {"a": "b"}}
OLD = ("nodes", "tensorflowVersions")
"""What v1 has for nodes of the old kind, which nobody can create any more."""


class Rest:
    """Asks for paths, and gives the status and the JSON of the answer."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def ask(self, verb: str, path: str, **options: Any) -> tuple[int, Any]:
        async with self._session.request(verb, f"{self._url}{path}", **options) as answer:
            assert answer.content_type == "application/json"
            return answer.status, await answer.json()

    async def finished(self, operation: dict[str, Any], version: str) -> dict[str, Any]:
        async with asyncio.timeout(120):
            while not operation["done"]:
                await asyncio.sleep(0.02)
                _, operation = await self.ask("GET", f"/{version}/{operation['name']}")
        return operation


@pytest.fixture
async def rest(emulator: Any) -> AsyncIterator[Rest]:
    async with aiohttp.ClientSession() as session:
        yield Rest(session, emulator.rest)


def every_method(*versions: str) -> list[Any]:
    return [pytest.param(method, id=method.id) for version in versions for method in methods(version)]


async def test_every_method_of_the_documents_is_served_or_unimplemented_by_name(rest: Rest) -> None:
    answers = {}
    for method in (each for version in ("v1", "v2", "v2alpha1") for each in methods(version)):
        status, body = await rest.ask(method.verb, method.path(), json={})
        answers[method.id] = (status, body.get("error", {}).get("message", ""))

    unimplemented = {name: message for name, (status, message) in answers.items() if status == 501}
    assert {name for name, (_, message) in answers.items() if "no route" in message} == set()
    assert {
        name for name in unimplemented if not name.startswith("v1:") or not any(old in name for old in OLD)
    } == set()
    assert all(message.startswith("The emulator does not implement ") for message in unimplemented.values())


async def test_every_field_and_parameter_of_the_documents_is_understood(rest: Rest) -> None:
    complained = {}
    for method in (each for version in ("v2", "v2alpha1") for each in methods(version)):
        body = full_body(method.version, method.request) if method.request else None
        given = {name: "labels" if "Mask" in name else "1" for name in method.parameters}
        path = method.path(nodesId="missing", operationsId="missing", queuedResourcesId="missing")
        _, answer = await rest.ask(method.verb, path, params=given, json=body)
        sentences = answer.get("error", {}).get("message", "").split("\n")
        complained[method.id] = [each for each in sentences if "Unknown name" in each or "Invalid value" in each]

    # a body with every field has fields that exclude one another
    others = {name: [each for each in found if "(oneof)" not in each] for name, found in complained.items()}
    assert {name: found for name, found in others.items() if found} == {}


def is_old(method_id: str) -> bool:
    return method_id.startswith("v1:") and any(each in method_id for each in OLD)


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
async def test_every_answer_has_the_form_that_the_document_gives_it(rest: Rest, emulator: Any, version: str) -> None:
    nodes = f"/{version}/{emulator.parent}/nodes"
    queued = f"/{version}/{emulator.parent}/queuedResources"
    spec = {"parent": emulator.parent, "nodeId": "n2", "node": NODE}
    _, created = await rest.ask("POST", f"{nodes}?nodeId=n1", json=NODE)
    _, made = await rest.ask("POST", f"{queued}?queuedResourceId=q1", json={"tpu": {"nodeSpec": [spec]}})
    emulator.control.advance(1000)
    finished = [await rest.finished(each, version) for each in (created, made)]
    filled = {"operationsId": created["name"].rpartition("/")[2]}

    answers = {}
    for method in walk(version):
        mask = {"updateMask": "labels"} if "updateMask" in method.parameters else {}
        answers[method.id] = await rest.ask(method.verb, method.path(**filled), params=mask, json={})

    found = {name: complaints_about(method_of(version, name), answer) for name, answer in answers.items()}
    served = {name for name, (status, _) in answers.items() if status == 200}
    assert [complaints(version, "Operation", each) for each in finished] == [[], []]
    assert {name: each for name, each in found.items() if each} == {}
    assert {name for name in answers if name.endswith(("list", "get"))} <= served


def walk(version: str) -> list[Method]:
    """All methods but those that create: what reads comes first, what deletes comes last."""
    order = {"GET": 0, "POST": 1, "PATCH": 1, "DELETE": 2}
    return sorted((each for each in methods(version) if "create" not in each.id), key=lambda each: order[each.verb])


def method_of(version: str, method_id: str) -> Method:
    return next(each for each in methods(version) if each.id == method_id)


def complaints_about(method: Method, answer: tuple[int, Any]) -> list[str]:
    status, body = answer
    if status == 200:
        return complaints(method.version, method.response, body)
    return [error.message for error in Draft202012Validator(ENVELOPE).iter_errors(body)]


async def test_v1_lists_locations_and_types_as_its_document_says(rest: Rest) -> None:
    lists = [each for each in methods("v1") if each.id in ("v1:list", "v1:get", "v1:acceleratorTypes.list")]
    answers = [await rest.ask("GET", each.path()) for each in lists]

    assert [status for status, _ in answers] == [200] * 3
    assert [complaints("v1", each.response, body) for each, (_, body) in zip(lists, answers, strict=True)] == [[]] * 3


async def test_a_running_operation_prints_done_false(rest: Rest, emulator: Any) -> None:
    emulator.control.pause()
    _, operation = await rest.ask("POST", f"/v2/{emulator.parent}/nodes?nodeId=n1", json=NODE)

    assert operation["done"] is False
    assert operation["metadata"]["@type"] == "type.googleapis.com/google.cloud.tpu.v2.OperationMetadata"
    assert (operation["metadata"]["verb"], operation["metadata"]["apiVersion"]) == ("create", "v2")


async def test_an_operation_stays_of_the_version_that_started_it(rest: Rest, emulator: Any) -> None:
    kinds = {}
    for version in ("v2", "v2alpha1"):
        _, started = await rest.ask("POST", f"/{version}/{emulator.parent}/nodes?nodeId={version}", json=NODE)
        emulator.control.advance(1000)
        other = {"v2": "v2alpha1", "v2alpha1": "v2"}[version]
        done = await rest.finished(started, other)
        kinds[version] = [done["metadata"]["@type"], done["response"]["@type"], done["response"]["apiVersion"]]

    prefix = "type.googleapis.com/google.cloud.tpu."
    assert kinds["v2"] == [f"{prefix}v2.OperationMetadata", f"{prefix}v2.Node", "V2"]
    assert kinds["v2alpha1"] == [f"{prefix}v2alpha1.OperationMetadata", f"{prefix}v2alpha1.Node", "V2_ALPHA1"]


@pytest.mark.parametrize("mask", ["dataDisks", "data_disks", "labels,description"])
async def test_masks_may_be_written_in_either_case(rest: Rest, emulator: Any, mask: str) -> None:
    nodes = f"/v2/{emulator.parent}/nodes"
    _, created = await rest.ask("POST", f"{nodes}?nodeId=n1", json=NODE)
    emulator.control.advance(1000)
    await rest.finished(created, "v2")
    body = {"description": "new", "labels": {"a": "c"}, "dataDisks": [{"sourceDisk": "d"}], "state": "PREEMPTED"}
    status, answer = await rest.ask("PATCH", f"{nodes}/n1?updateMask={mask}", json=body)
    _, shown = await rest.ask("GET", f"{nodes}/n1")

    assert status == 200, answer
    assert shown["state"] == "READY"
    assert ("dataDisks" in shown) == mask.startswith("data")
    assert (shown["labels"] == {"a": "c"}) == mask.startswith("labels")


@pytest.mark.parametrize(
    ("verb", "path", "status", "word"),
    [
        ("GET", "/v2/projects/other/locations/us-central1-a/nodes", 403, "PERMISSION_DENIED"),
        ("GET", "/v2/projects/demo-project/locations/mars-1a/nodes", 403, "PERMISSION_DENIED"),
        ("GET", "/v2/projects/demo-project/locations/-/nodes?pageToken=forged", 400, "INVALID_ARGUMENT"),
        ("GET", "/v2/projects/demo-project/locations/-/nodes?pageSize=many", 400, "INVALID_ARGUMENT"),
        ("GET", "/v1/anything", 404, "NOT_FOUND"),
        ("GET", "/v2/projects/demo-project/locations/us-central1-a/machines", 404, "NOT_FOUND"),
        ("PUT", "/v2/projects/demo-project/locations/us-central1-a/nodes", 404, "NOT_FOUND"),
        ("GET", "/v1/projects/demo-project/locations/us-central1-a/tensorflowVersions", 501, "UNIMPLEMENTED"),
    ],
)
async def test_errors_come_in_googles_envelope(rest: Rest, verb: str, path: str, status: int, word: str) -> None:
    answered, body = await rest.ask(verb, path)

    assert (answered, body["error"]["code"], body["error"]["status"]) == (status, status, word)
    assert body["error"]["message"]


async def test_the_service_identity_is_that_of_the_projects_number(rest: Rest, emulator: Any) -> None:
    _, answer = await rest.ask("POST", f"/v2/{emulator.parent}:generateServiceIdentity", json={})

    assert answer == {"identity": {"email": "service-123456789012@cloud-tpu.iam.gserviceaccount.com"}}


def test_the_paths_of_this_test_are_complete() -> None:
    needed = {part for version in ("v1", "v2", "v2alpha1") for each in methods(version) for part in placeholders(each)}

    assert needed == set(FILLED)


def placeholders(method: Method) -> list[str]:
    return [part.rpartition("}")[0] for part in method.document["flatPath"].split("{")[1:]]
