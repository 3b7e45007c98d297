"""Each refusal of the cloud offers the actions that help, and no others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jupyter_tpu.cloud.refusal_records import Refusal, Request
from jupyter_tpu.cloud.refusals import error_of_refusal
from jupyter_tpu.errors import Action
from jupyter_tpu.models import NodeName, NodeSpec

NAME = NodeName(project="my-project", zone="us-central1-a", node_id="my-node")
SPEC = NodeSpec(name=NAME, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite", spot=True)
CREATE = Request(
    what="create node 'my-node' in us-central1-a",
    project="my-project",
    zone="us-central1-a",
    node_id="my-node",
    accelerator_type="v5litepod-8",
    spec=SPEC,
)
QUOTA = "Quota limit 'TPUV5sLitepodPerProjectPerZoneForTPUAPI' has been exceeded. Limit: 4 in zone us-central1-a."
LOCATION = "Location us-central1-a is not found or access is unauthorized."

REFUSALS: list[tuple[int, str, str, list[str]]] = [
    (16, "", "no", ["Copy command"]),
    (7, "SERVICE_DISABLED", "no", ["Enable API"]),
    (7, "BILLING_DISABLED", "no", ["Link billing account"]),
    (7, "", "You don't have permission to submit requests.", ["Try us-south1-a", "Search other zones"]),
    (7, "", LOCATION, ["Try us-south1-a", "Search other zones"]),
    (7, "CONSUMER_INVALID", "no", ["Copy command"]),
    (7, "", "Permission 'tpu.nodes.create' denied", ["Copy command"]),
    (8, "", QUOTA, ["Show quota", "Clean up", "Search other zones"]),
    (8, "RATE_LIMIT_EXCEEDED", "no", []),
    (8, "", "You have reached IN_USE_ADDRESSES limit.", ["Search other zones"]),
    (8, "", "Insufficient reserved capacity", []),
    (8, "", "There is no more capacity", ["Try us-south1-a", "Search other zones", "Wait in the queue"]),
    (3, "", "accelerator v5litepod-8 was not found in zone x", ["Try us-south1-a", "Search other zones"]),
    (9, "", "while in state CREATING", []),
    (5, "", "Reservation not found", []),
    (5, "", "no such thing", ["Refresh list"]),
    (6, "", "it exists", ["Refresh list"]),
    (3, "", "odd", []),
    (14, "", "", []),
    (13, "", "", []),
]


def actions(code: int, reason: str, text: str, request: Request = CREATE) -> tuple[Action, ...]:
    return error_of_refusal(request, Refusal(code=code, message=text, reason=reason)).actions


@pytest.mark.parametrize(("code", "reason", "text", "labels"), REFUSALS)
def test_a_refusal_offers_what_helps(code: int, reason: str, text: str, labels: list[str]) -> None:
    assert [action.label for action in actions(code, reason, text)] == labels


@pytest.mark.parametrize(("code", "reason", "text", "labels"), REFUSALS)
def test_what_is_not_the_creation_of_a_node_is_tried_in_no_other_zone(
    code: int, reason: str, text: str, labels: list[str]
) -> None:
    offered = actions(code, reason, text, replace(CREATE, spec=None))
    assert "tpu:open-form" not in [action.command for action in offered]


def test_another_zone_is_tried_on_the_same_terms() -> None:
    tried = actions(8, "", "There is no more capacity")[0]
    assert (tried.command, tried.args) == (
        "tpu:open-form",
        {
            "way": "now",
            "zone": "us-south1-a",
            "node_id": "my-node",
            "accelerator_type": "v5litepod-8",
            "runtime_version": "v2-alpha-tpuv5-lite",
            "provisioning": "spot",
            "internal_ips": False,
        },
    )


def test_a_type_that_the_catalogue_does_not_know_is_only_queued() -> None:
    odd = replace(CREATE, spec=replace(SPEC, accelerator_type="v99-8"), accelerator_type="v99-8")
    assert [action.label for action in actions(8, "", "no more capacity", odd)] == ["Wait in the queue"]


def test_the_page_of_the_api_and_the_quota_are_those_of_the_request() -> None:
    expected: dict[str, Any] = {"page": "api", "project": "my-project", "service": "tpu.googleapis.com"}
    assert actions(7, "SERVICE_DISABLED", "no")[0].args == expected
    assert actions(8, "", QUOTA)[0].args == {"section": "quota", "zone": "us-central1-a"}


def test_a_stop_is_never_refused_for_want_of_capacity() -> None:
    exhausted = Refusal(code=8, message="Resource has been exhausted (e.g. check quota).")
    assert error_of_refusal(CREATE, exhausted).code == "out_of_capacity"
    stop = replace(CREATE, what="stop node 'my-node'", spec=None, takes_capacity=False)
    assert error_of_refusal(stop, exhausted).code == "rate_exceeded"


def test_the_id_of_a_quota_is_only_in_the_details() -> None:
    error = error_of_refusal(CREATE, Refusal(code=8, message=QUOTA))
    assert "TPUV5s" not in str(error)
    assert "Limit: 4 in zone us-central1-a." in error.message
    assert "TPUV5sLitepodPerProjectPerZoneForTPUAPI" in error.raw
