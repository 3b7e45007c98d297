"""Between v2alpha1 and the core's v2: nothing is lost, and nothing goes as bytes."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from discovery_documents import document
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_tpu.emulator.resources import message_types
from jupyter_tpu.emulator.resources.errors import Refusal
from jupyter_tpu.emulator.transport import versions
from jupyter_tpu.emulator.transport.rest_server import canonical

TIMES = {"google.protobuf.Timestamp": "2026-01-02T03:04:05Z", "google.protobuf.Duration": "7.500s"}
NOT_ASKED = {"google.rpc.Status", "google.cloud.tpu.v2alpha1.QueuedResourceState"}


@functools.cache
def bodies(kind: Descriptor) -> st.SearchStrategy[dict[str, Any]]:
    """Messages in JSON, with any of their fields and at most one of each oneof."""
    fields = {each.json_name: st.deferred(lambda each=each: values(each)) for each in chosen(kind)}
    return st.fixed_dictionaries({}, optional=fields)


def chosen(kind: Descriptor) -> list[FieldDescriptor]:
    """One field of each oneof, the last: that is where the versions differ."""
    last = {each.containing_oneof.name: each for each in kind.fields if each.containing_oneof}
    unasked = [each for each in kind.fields if each.message_type and each.message_type.full_name in NOT_ASKED]
    asked = [each for each in kind.fields if each not in unasked and each.name != "node_id"]
    return [each for each in asked if each.containing_oneof is None or last[each.containing_oneof.name] is each]


def values(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return st.dictionaries(st.sampled_from("abc"), st.just("text"), min_size=1)
    return st.lists(single(field), min_size=1, max_size=3) if field.is_repeated else single(field)


def single(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        name = field.message_type.full_name
        return st.just(TIMES[name]) if name in TIMES else bodies(field.message_type)
    if field.enum_type is not None:
        names = [each.name for each in field.enum_type.values if each.number and each.name != "V1"]
        return st.sampled_from(names if field.name != "api_version" else ["V2_ALPHA1"])
    plain: dict[int, Any] = {FieldDescriptor.TYPE_BOOL: True, FieldDescriptor.TYPE_STRING: "text"}
    return st.just(plain.get(field.type, "5" if field.type == FieldDescriptor.TYPE_INT64 else 5))


def view(version: str, extras: Any) -> versions.View:
    return versions.View(version, message_types.new, lambda name: extras)


@settings(max_examples=60)
@given(st.data())
def test_a_queued_resource_of_v2alpha1_survives_the_way_through_the_core(data: st.DataObject) -> None:
    kind = message_types.rest_types("v2alpha1").descriptor("QueuedResource")
    asked_for = canonical({"queuedResource": data.draw(bodies(kind))}, "v2alpha1", "CreateQueuedResource")
    sent = {name: dict(value) for name, value in asked_for.items()}

    asked = versions.request_from_json("v2alpha1", "CreateQueuedResource", deep_copy(asked_for))
    shown = view("v2alpha1", asked.extras).shown(asked.request.queued_resource)

    assert asked.request.DESCRIPTOR.full_name == "google.cloud.tpu.v2.CreateQueuedResourceRequest"
    assert json_format.MessageToDict(shown) == sent.get("queuedResource", {})


@settings(max_examples=60)
@given(st.data())
def test_a_node_of_v2alpha1_survives_the_way_through_the_core(data: st.DataObject) -> None:
    kind = message_types.rest_types("v2alpha1").descriptor("Node")
    sent = canonical({"node": data.draw(bodies(kind))}, "v2alpha1", "CreateNode")

    asked = versions.request_from_json("v2alpha1", "CreateNode", deep_copy(sent))
    shown = view("v2alpha1", asked.extras).shown(asked.request.node)

    assert json_format.MessageToDict(shown) == sent.get("node", {})


def deep_copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: deep_copy(each) for name, each in value.items()}
    return [deep_copy(each) for each in value] if isinstance(value, list) else value


def test_v2_shows_none_of_the_fields_that_only_v2alpha1_has() -> None:
    extras = {
        "autocheckpointEnabled": True,
        "schedulingConfig": {"provisioningModel": "SPOT"},
        "upcomingMaintenance": {},
    }
    node = message_types.PACKAGES["v2"].Node.pb()(name="n", description="d")

    shown = json_format.MessageToDict(view("v2", extras).shown(node))

    assert shown == {"name": "n", "description": "d", "schedulingConfig": {}, "upcomingMaintenance": {}}


def test_a_node_id_beside_multi_node_params_is_refused() -> None:
    spec = {"nodeId": "n", "multiNodeParams": {"nodeCount": 2}}

    with pytest.raises(Refusal, match="node_id"):
        versions.request_from_json(
            "v2alpha1", "CreateQueuedResource", {"queuedResource": {"tpu": {"nodeSpec": [spec]}}}
        )


def test_a_request_id_of_v2alpha1_goes_beside_the_request() -> None:
    asked = versions.request_from_json("v2alpha1", "CreateNode", {"parent": "p", "requestId": "r", "node": {}})

    assert (asked.request_id, asked.extras) == ("r", {})


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
def test_the_fields_of_rest_are_those_of_the_documents(version: str) -> None:
    differing = {}
    for name, schema in document(version)["schemas"].items():
        found = descriptor_of(version, name)
        if found is not None and not name.endswith("Request"):
            listed, ours = set(schema.get("properties", {})), {each.json_name for each in found.fields}
            differing[name] = listed ^ ours

    assert len(differing) > 40
    assert {name: names for name, names in differing.items() if names} == {}


def descriptor_of(version: str, name: str) -> Descriptor | None:
    """Messages that are nested in the package have plain names in the document."""
    types = message_types.rest_types(version)
    holders = ("", "QueuedResource.", "QueuedResource.Tpu.", "QueuedResourceState.", "QueuedResource.QueueingPolicy.")
    for holder in holders:
        try:
            return types.descriptor(holder + name)
        except KeyError:
            continue
    return None
