"""Methods of side services by verb and path, names of those that are not served, and bodies by their shape."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.emulator.resources.errors import Refusal
from jupyter_tpu.emulator.services.requests import shapes as shapes
from jupyter_tpu.emulator.services.requests.service_calls import GoogleService, Method, ServiceCall, page

SHAPE = {
    "name": shapes.text,
    "amount": {"units": shapes.int64, "isFinal": shapes.boolean},
    "rules": [{"kind": shapes.text}],
    "etag": shapes.anything,
}


def service(*paths: str, **fields: Any) -> GoogleService:
    methods = tuple(Method(verb="GET", path=path, answer=lambda call: {}) for path in paths)
    return GoogleService(name="api", owns="v1/.*", methods=methods, **fields)


@pytest.mark.parametrize(
    ("path", "raw_path", "parts"),
    [
        ("v1/a/{a}", "v1/a/x", {"a": "x"}),
        ("v1/a/{a}/b", "v1/a/google.com:x/b", {"a": "google.com:x"}),
        ("v1/a/{a}", "v1/a/tpu.googleapis.com%2Ftpu-v6e", {"a": "tpu.googleapis.com/tpu-v6e"}),
        ("v1/a/{a}:enable", "v1/a/x:enable", {"a": "x"}),
    ],
)
def test_a_path_is_taken_apart(path: str, raw_path: str, parts: dict[str, str]) -> None:
    _, found = service(path).find("GET", raw_path)

    assert found == parts


@pytest.mark.parametrize("raw_path", ["v1/a", "v1/a/", "v1/a/x/b", "v1/a/x:other", "v1/a/x%2Fy/z"])
def test_another_path_is_not_served(raw_path: str) -> None:
    with pytest.raises(Refusal) as caught:
        service("v1/a/{a}").find("GET", raw_path)
    assert caught.value.status.message.startswith("The emulator does not implement api.")


@pytest.mark.parametrize(
    ("verb", "raw_path", "name"),
    [
        ("GET", "v1/projects/p/things", "api.projects.things.list"),
        ("GET", "v1/projects/p/things/t", "api.projects.things.get"),
        ("POST", "v1/projects/p/things", "api.projects.things.create"),
        ("PATCH", "v1/projects/p/things/t", "api.projects.things.patch"),
        ("PUT", "v1/projects/p/things/t", "api.projects.things.update"),
        ("DELETE", "v1/projects/p/things/t", "api.projects.things.delete"),
        ("POST", "v1/projects/p/things/t:move", "api.projects.things.move"),
        ("POST", "v1/projects/p:x/things", "api.projects.things.create"),
    ],
)
def test_a_method_has_the_name_of_the_discovery_document(verb: str, raw_path: str, name: str) -> None:
    assert service().method_id(verb, raw_path) == name


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 500])
def test_pages_hold_every_item_once_and_in_order(size: int) -> None:
    items = [{"name": f"n{number % 3}-{number}"} for number in range(7)]
    found: list[Any] = []
    query = {"pageSize": str(size)}

    while True:
        answer = page(ServiceCall(parts={}, query=query), "items", items)
        found += answer.get("items", [])
        if "nextPageToken" not in answer:
            break
        query = {"pageSize": str(size), "pageToken": answer["nextPageToken"]}

    assert found == items


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"colour": 1}, "Unknown name \"colour\" at 'thing': Cannot find field."),
        ({"amount": {"isOpen": True}}, "Unknown name \"isOpen\" at 'thing.amount': Cannot find field."),
        ({"name": 5}, "Invalid value at 'thing.name' (TYPE_STRING), '5'"),
        ({"amount": {"units": "many"}}, "Invalid value at 'thing.amount.units' (TYPE_INT64), 'many'"),
        ({"amount": {"units": True}}, "Invalid value at 'thing.amount.units' (TYPE_INT64), 'True'"),
        ({"amount": {"isFinal": "yes"}}, "Invalid value at 'thing.amount.is_final' (TYPE_BOOL), 'yes'"),
        ({"rules": {}}, "Invalid value at 'thing.rules' (TYPE_REPEATED), '{}'"),
        ({"rules": [{"kind": 1}]}, "Invalid value at 'thing.rules[0].kind' (TYPE_STRING), '1'"),
    ],
)
def test_a_body_of_another_shape_is_refused_in_googles_words(body: Any, words: str) -> None:
    with pytest.raises(Refusal) as caught:
        shapes.check_shape(body, SHAPE, "thing")
    assert words in caught.value.status.message
    assert "fieldViolations" in json.dumps(json_format.MessageToDict(caught.value.status))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*SHAPE, "kind", "units"]), inner),
    max_leaves=12,
)


@given(VALUES)
def test_any_body_fits_or_is_refused(body: Any) -> None:
    try:
        shapes.check_shape(body, SHAPE, "thing")
    except Refusal:
        return
    assert isinstance(body, dict)
