"""Request bodies: what is let through, and the words of each refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jupyter_tpu.errors import BadInput
from jupyter_tpu.server.routes.bodies import node_spec_from_body, provisioning_parameters

GOOD: dict[str, Any] = {
    "node_id": "my-node",
    "zone": "us-central1-a",
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
    "spot": True,
}


def body(**changes: Any) -> bytes:
    data = {**GOOD, **changes}
    return json.dumps({name: value for name, value in data.items() if value is not ...}).encode()


def test_a_good_body_becomes_a_spec_in_the_servers_project() -> None:
    spec = node_spec_from_body(body(), "demo-project")

    assert str(spec.name) == "projects/demo-project/locations/us-central1-a/nodes/my-node"
    assert (spec.accelerator_type, spec.runtime_version, spec.spot) == ("v5litepod-8", "v2-alpha-tpuv5-lite", True)


def test_spot_is_false_unless_it_is_said() -> None:
    assert node_spec_from_body(body(spot=...), "demo-project").spot is False


@pytest.mark.parametrize("provisioning", ["on-demand", "spot", "preemptible", "reserved"])
def test_a_body_names_its_terms(provisioning: str) -> None:
    assert node_spec_from_body(body(spot=..., provisioning=provisioning), "demo-project").provisioning == provisioning
    assert node_spec_from_body(body(provisioning=None), "demo-project").provisioning == "spot"


def test_a_body_may_ask_for_internal_addresses() -> None:
    assert node_spec_from_body(body(internal_ips=True), "demo-project").options.internal_ips


@pytest.mark.parametrize(
    ("provisioning", "spot", "found"),
    [("", "", "on-demand"), ("", "true", "spot"), ("preemptible", "", "preemptible"), ("spot", "true", "spot")],
)
def test_a_query_names_its_terms(provisioning: str, spot: str, found: str) -> None:
    assert provisioning_parameters(provisioning, spot) == found


@pytest.mark.parametrize(("provisioning", "spot"), [("", "perhaps"), ("cheap", ""), ("reserved", "true")])
def test_a_query_that_contradicts_itself_is_refused(provisioning: str, spot: str) -> None:
    with pytest.raises(BadInput):
        provisioning_parameters(provisioning, spot)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 5000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b" " * 20_000, "too long"),
        (body(node_id=...), "'node_id' is missing"),
        (body(node_id=""), "'node_id' is missing"),
        (body(node_id=7), "'node_id' is missing or is not text"),
        (body(zone=["us-central1-a"]), "'zone' is missing or is not text"),
        (body(accelerator_type=None), "'accelerator_type' is missing"),
        (body(runtime_version="v2\nalpha"), "'runtime_version' is too long or contains control characters"),
        (body(accelerator_type="v" * 500), "'accelerator_type' is too long"),
        (body(spot="yes"), "'spot' must be true or false"),
        (body(spot=1), "'spot' must be true or false"),
        (body(provisioning="cheap"), "'cheap' is not a provisioning model"),
        (body(provisioning=["spot"]), "'provisioning' is missing or is not text"),
        (body(provisioning="reserved"), "reserved and spot=true contradict each other"),
        (body(spot=False, provisioning="spot"), "spot and spot=false contradict each other"),
        (body(spot=..., provisioning="flex-start"), "cannot be created immediately"),
        (body(internal_ips="no"), "'internal_ips' must be true or false"),
        (body(metadata={"startup-script": "curl"}), "unknown fields: 'metadata'"),
        (body(project="other"), "unknown fields: 'project'"),
        (body(node_id="My_Node"), "not a valid node name"),
        (body(node_id="-n"), "not a valid node name"),
        (body(node_id="n-"), "not a valid node name"),
        (body(node_id="a;rm -rf ~"), "not a valid node name"),
        (body(node_id="<img src=x onerror=alert(1)>"), "not a valid node name"),
        (body(node_id="n" * 64), "not a valid node name"),
        (body(zone="us-central1-a/../x"), "not a valid zone"),
        (body(zone="-"), "not a valid zone"),
    ],
)
def test_anything_else_is_refused_in_words(raw: bytes, said: str) -> None:
    with pytest.raises(BadInput) as refusal:
        node_spec_from_body(raw, "demo-project")

    assert said in refusal.value.message
    assert refusal.value.hint
    assert len(refusal.value.message) < 300
