"""Who pays for a node that somebody is about to create."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_tpu.models import Node, NodeName
from jupyter_tpu.money.allotment import allot
from jupyter_tpu.money.coverage import NEVER_COVERED, Coverage, NodeRequest, coverage
from jupyter_tpu.money.days import began_at, day_number, day_of
from jupyter_tpu.money.grants import Grant, grant_from_json
from jupyter_tpu.provisioning import Provisioning

NOW = began_at(day_number("2026-11-22")) + 3600.0
EARLY, LATE = began_at(day_number("2026-10-31")), began_at(day_number("2027-01-30"))
ROWS = [
    {"chips": 32, "generation": "v4", "spot": False, "zone": "us-central2-b"},
    {"chips": 16, "generation": "v5e", "spot": True, "zone": "us-central1-a"},
    {"chips": 20, "generation": "v2", "spot": False, "zone": "us-central1-b", "device": "v2-8"},
    {"chips": 64, "generation": "v6e", "spot": True, "zone": "us-east1-d"},
]
TRC = grant_from_json("trc", {"kind": "trc", "starts_on": "2026-11-01", "days": 90, "rows": ROWS})
V5E_SPOT = ("v5litepod-8", "us-central1-a", True)


def node(accelerator_type: str, zone: str, spot: bool) -> Node:
    name = NodeName(project="my-project", zone=zone, node_id="there")
    return Node(name=name, state="READY", accelerator_type=accelerator_type, spot=spot)


def ask(
    request: tuple[str, str, bool],
    *nodes: Node,
    grants: tuple[Grant, ...] = (TRC,),
    now: float = NOW,
    left: dict[str, float | None] | None = None,
    **options: Any,
) -> Coverage:
    accelerator_type, zone, spot = request
    allotment = allot(grants, nodes, today=day_of(now), **options)
    wanted = NodeRequest(accelerator_type=accelerator_type, zone=zone, provisioning="spot" if spot else "on-demand")
    return coverage(wanted, grants, allotment, now=now, left=left or {})


@pytest.mark.parametrize(
    ("request_", "nodes", "now", "text"),
    [
        (V5E_SPOT, [], NOW, "free under your TRC grant trc until 2027-01-29, then billed: $4.80/h"),
        (V5E_SPOT, [node(*V5E_SPOT)], NOW, "free under your TRC grant trc until 2027-01-29, then billed: $4.80/h"),
        (
            ("v6e-8", "us-east1-d", True),
            [],
            NOW,
            "free under your TRC grant trc until 2027-01-29, then billed: $4.35/h",
        ),
        (("v4-64", "us-central2-b", False), [], NOW, "free under your TRC grant trc until 2027-01-29"),
        (("v2-8", "us-central1-b", False), [], NOW, "free under your TRC grant trc until 2027-01-29"),
        (("v2-32", "us-central1-b", False), [], NOW, "(your TRC grant trc covers only nodes of type v2-8 there)"),
        (
            ("v5litepod-8", "us-central1-a", False),
            [],
            NOW,
            "billed: $9.60/h (your TRC grant trc covers v5e there only as",
        ),
        (("v4-8", "us-central2-b", True), [], NOW, "(your TRC grant trc covers v4 there only on demand)"),
        (("v5litepod-8", "us-west4-a", True), [], NOW, "(your TRC grant trc covers v5e only in us-central1-a)"),
        (("v5p-8", "us-east5-a", True), [], NOW, "(your TRC grant trc covers no v5p)"),
        (
            ("v5litepod-32", "us-central1-a", True),
            [],
            NOW,
            "(your TRC grant trc has 16 chips free there, but the node needs 32)",
        ),
        (V5E_SPOT, [node("v5litepod-16", *V5E_SPOT[1:])], NOW, "has 0 chips free there, but the node needs 8"),
        (V5E_SPOT, [node("v99-1", *V5E_SPOT[1:])], NOW, "is unknown: the type of there is unknown"),
        (V5E_SPOT, [], EARLY, "(your TRC grant trc starts on 2026-11-01)"),
        (V5E_SPOT, [], LATE, "billed: $4.80/h (your TRC grant trc ended on 2027-01-29)"),
        (("v99-1", "us-central1-a", True), [], NOW, "billed: price unknown (the number of chips of v99-1 is unknown)"),
    ],
)
def test_who_pays(request_: tuple[str, str, bool], nodes: list[Node], now: float, text: str) -> None:
    found = ask(request_, *nodes, now=now)
    assert text in found.text
    assert found.is_covered == found.text.startswith("free")
    assert found.is_covered or found.text.startswith("billed: ")
    assert (found.until is not None) == found.is_covered
    assert "$" not in found.detail, "the price is said elsewhere"


def test_without_a_grant_it_is_billed() -> None:
    assert ask(("v5litepod-8", "us-central1-a", False), grants=()).text == "billed: $9.60/h"


def test_a_zone_that_did_not_answer_covers_nothing() -> None:
    found = ask(V5E_SPOT, unreachable=["us-central1-a"])
    assert not found.is_covered
    assert "is unknown: us-central1-a did not respond" in found.text


def test_of_two_grants_the_longer_one_is_named() -> None:
    longer = grant_from_json("longer", {**TRC.to_json(), "ends_on": "2027-06-30"})
    assert ask(V5E_SPOT, grants=(TRC, longer)).grant == "longer"


def test_not_more_than_a_few_reasons_are_given() -> None:
    grants = tuple(grant_from_json(f"g{number}", TRC.to_json()) for number in range(9))
    found = ask(("v5p-8", "us-east5-a", True), grants=grants)
    assert found.text.count("covers no v5p") == 3
    assert "6 other grants do not cover it" in found.text
    assert found.detail in found.text


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (212.4, "billed: $9.60/h; your credit welcome has about $212.40 left until 2027-01-29"),
        (None, "billed: $9.60/h; your credit welcome may pay for the node until 2027-01-29 (remaining amount unknown)"),
        (0.0, "billed: $9.60/h"),
    ],
)
def test_a_credit_is_named_as_long_as_something_may_be_left(left: float | None, text: str) -> None:
    body = {"kind": "credit", "starts_on": "2026-11-01", "days": 90, "usd": 300}
    grants = (grant_from_json("welcome", body),)
    found = ask(("v5litepod-8", "us-central1-a", False), grants=grants, left={"welcome": left})
    assert found.text == text
    assert not found.is_covered


def test_what_is_never_covered_is_always_said() -> None:
    view = ask(V5E_SPOT).to_json()
    assert view["not_covered"] == list(NEVER_COVERED)
    assert (view["covered"], view["grant"], view["usd_per_hour"]) == (True, "trc", 4.8)
    assert view["templates"]["text"].startswith("free under your TRC grant {name}")  # for other languages
    for word in ("disk", "external IP", "egress", "other services"):
        assert any(word in sentence for sentence in NEVER_COVERED)


@pytest.mark.parametrize(
    ("provisioning", "text"),
    [
        (
            "reserved",
            "billed: with your reservation, whether you use it or not (no list price) (your TRC grant trc does not ",
        ),
        ("flex-start", "does not cover flex-start nodes"),
        ("preemptible", "free under your TRC grant trc"),
    ],
)
def test_a_grant_pays_for_on_demand_and_for_what_can_be_taken_away(provisioning: Provisioning, text: str) -> None:
    wanted = NodeRequest(accelerator_type="v5litepod-8", zone="us-central1-a", provisioning=provisioning)
    allotment = allot((TRC,), [], today=day_of(NOW))
    assert text in coverage(wanted, (TRC,), allotment, now=NOW, left={}).text
