"""Whatever is sent to the REST port: the answer is Google's JSON, and the emulator lives on."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from discovery_documents import ENVELOPE, Method, complaints, document, methods
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
WORDS = {
    "acceleratorType": ["v5litepod-8", "v5litepod-16", "v9-8"],
    "runtimeVersion": ["v2-alpha-tpuv5-lite", "tpu-ubuntu2204-base"],
    "nodeId": ["n1", "n2", "N", "n-", ""],
    "queuedResourceId": ["q1", "q2", "Q"],
    "parent": ["projects/demo-project/locations/us-central1-a", "projects/x"],
    "updateMask": ["labels", "dataDisks", "description,tags", "state", "", "network_config.enable_external_ips"],
    "pageSize": ["0", "1", "1001", "-1", "x"],
    "filter": ["type=v5litepod-8", "type", "a=b"],
    "google-datetime": ["2030-01-02T03:04:05Z", "0001-01-01T00:00:00Z", "2030-01-02", "9999-12-31T23:59:59.999999999Z"],
    "google-duration": ["3600s", "-1s", "1h", "315576000000s", "0.5s"],
    "int64": ["1", "-1", "9223372036854775808", "x"],
}
PARTS = {
    "projectsId": ["demo-project", "123456789012", "other"],
    "locationsId": ["us-central1-a", "-", "mars-1a"],
    "nodesId": ["n1", "n2"],
    "queuedResourcesId": ["q1", "q2"],
    "operationsId": ["operation-1"],
    "acceleratorTypesId": ["v5litepod-8", "v9-8"],
    "runtimeVersionsId": ["v2-alpha-tpuv5-lite", "v0"],
}


def seldom(odd: st.SearchStrategy[Any], usual: st.SearchStrategy[Any], once_in: int = 20) -> st.SearchStrategy[Any]:
    return st.integers(1, once_in).flatmap(lambda number: odd if number == once_in else usual)


def parts(name: str) -> st.SearchStrategy[str]:
    """What stands in a path, percent-encoded; mostly something that exists."""
    odd = st.text(min_size=1, max_size=8).map(lambda text: quote(text.encode(errors="replace"), safe=""))
    return seldom(odd | st.sampled_from(PARTS[name]), st.just(PARTS[name][0]), once_in=8)


def queries(method: Method) -> st.SearchStrategy[list[tuple[str, str]]]:
    one = st.sampled_from([*method.parameters, "alt", "$alt", "colour"])
    pairs = one.flatmap(lambda name: st.tuples(st.just(name), st.sampled_from(WORDS.get(name, [""])) | texts()))
    return seldom(st.lists(pairs, max_size=3), st.just([]), once_in=3).map(lambda given: needed(method) + given)


def needed(method: Method) -> list[tuple[str, str]]:
    given = {"nodeId": "n3", "queuedResourceId": "q3", "updateMask": "labels"}
    return [(name, value) for name, value in given.items() if name in method.parameters]


def texts() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@functools.cache
def bodies(version: str, name: str) -> st.SearchStrategy[Any]:
    """Bodies by the schema, with a wrong value or an unknown field here and there."""
    listed = document(version)["schemas"][name].get("properties", {})
    fields = {key: st.deferred(lambda key=key, each=each: values(version, key, each)) for key, each in listed.items()}
    required = {
        key: fields.pop(key)
        for key in ("acceleratorType", "runtimeVersion", "tpu", "nodeSpec", "node")
        if key in fields
    }
    plain = st.fixed_dictionaries(required, optional=fields)
    return seldom(st.fixed_dictionaries({**required, "colour": JUNK}), plain)


def values(version: str, name: str, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    return seldom(JUNK, right_values(version, name, schema), once_in=40)


def right_values(version: str, name: str, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        return bodies(version, schema["$ref"])
    if schema["type"] == "array":
        return st.lists(values(version, name, schema["items"]), max_size=2)
    if schema["type"] == "object":
        return st.dictionaries(texts(), texts(), max_size=2)
    words = WORDS.get(name) or schema.get("enum") or WORDS.get(schema.get("format", ""))
    if words:
        return st.sampled_from(words)
    return {"boolean": st.booleans(), "integer": st.integers(), "string": texts()}[schema["type"]]


@st.composite
def requests(draw: st.DrawFn) -> tuple[Method, str, bytes]:
    method = draw(st.sampled_from([each for version in ("v2", "v2alpha1") for each in methods(version)]))
    path = method.path(**{name: draw(parts(name)) for name in PARTS if "{" + name + "}" in method.document["flatPath"]})
    query = urlencode(draw(queries(method)))
    by_schema = bodies(method.version, method.request) if method.request else JUNK
    body = draw(seldom(JUNK.map(encoded) | st.binary(), by_schema.map(encoded), once_in=10))
    return method, f"{spared(method, path)}?{query}", b"" if method.verb == "GET" else body


def spared(method: Method, path: str) -> str:
    """What ends or stops a node hits the second, so that the first can be changed all along."""
    is_harmless = method.verb in ("GET", "PATCH") or "create" in method.id or "Attributes" in method.id
    return path if is_harmless else path.replace("/nodes/n1", "/nodes/n2")


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.fixture
def send(emulator: Any) -> Iterator[Callable[[str, str, bytes], tuple[int, str, bytes]]]:
    """Sends to an emulator with a READY node and a queued resource; time stands still, so that nothing boots."""
    node = {"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite"}
    connection = http.client.HTTPConnection(emulator.rest.removeprefix("http://"), timeout=120)

    def exchange(verb: str, path: str, body: bytes) -> tuple[int, str, bytes]:
        connection.request(verb, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.headers.get_content_type(), answer.read()

    def is_ready(path: str) -> bool:
        return b"READY" in exchange("GET", path, b"")[2]

    spec = {"parent": emulator.parent, "nodeId": "n2", "node": node}
    exchange("POST", f"/v2/{emulator.parent}/nodes?nodeId=n1", encoded(node))
    while not is_ready(f"/v2/{emulator.node_name('n1')}"):
        emulator.control.advance(10)
    emulator.control.pause()
    exchange(
        "POST", f"/v2/{emulator.parent}/queuedResources?queuedResourceId=q1", encoded({"tpu": {"nodeSpec": [spec]}})
    )
    with contextlib.closing(connection):
        yield exchange


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(request=requests())
def test_any_request_is_answered_in_googles_json(send: Any, emulator: Any, request: tuple[Method, str, bytes]) -> None:
    method, path, body = request
    log = emulator.log()

    status, kind, content = send(method.verb, path, body)
    event(f"{status} to {method.verb}")

    assert emulator.log() == log
    assert (status < 500 or status == 501, kind) == (True, "application/json")
    answer = json.loads(content)
    if status == 200:
        assert complaints(method.version, method.response, answer) == []
    else:
        assert [error.message for error in Draft202012Validator(ENVELOPE).iter_errors(answer)] == []
        assert answer["error"]["code"] == status
