"""Grants as values: what they must be, what is left of them, and what of them is used."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.errors import BadInput
from jupyter_tpu.models import Node, NodeName
from jupyter_tpu.money.allotment import allot
from jupyter_tpu.money.days import day_number, day_of, day_text
from jupyter_tpu.money.grants import grant_from_json

ROW = {"chips": 32, "generation": "v5e", "spot": True, "zone": "us-central1-a"}
TRC = {"kind": "trc", "starts_on": "2026-11-01", "days": 90, "rows": [ROW]}
CREDIT = {"kind": "credit", "starts_on": "2026-11-01", "ends_on": "2027-01-29", "usd": 300}
TODAY = day_number("2026-11-22")


def node(node_id: str, accelerator_type: str = "v5litepod-16", zone: str = "us-central1-a", **fields: Any) -> Node:
    name = NodeName(project="my-project", zone=zone, node_id=node_id)
    return Node(name=name, accelerator_type=accelerator_type, **{"state": "READY", "spot": True, **fields})


@given(st.dates(date(2015, 1, 1), date(2100, 12, 31)))
def test_days_are_those_of_the_calendar(day: date) -> None:
    assert day_text(day_number(day.isoformat())) == day.isoformat()
    assert day_number(day.isoformat()) == (day - date(1970, 1, 1)) // timedelta(days=1)


@pytest.mark.parametrize("text", ["", "2026-02-29", "2026-13-01", "2026-00-10", "1999-01-01", "26-1-1", None, 20261101])
def test_what_is_no_day_is_refused(text: Any) -> None:
    with pytest.raises(BadInput, match="is not a valid day"):
        day_number(text)


def test_a_term_counts_its_first_day() -> None:
    grant = grant_from_json("trc", TRC)
    assert (grant.starts_on, grant.ends_on) == ("2026-11-01", "2027-01-29")
    assert grant.days_left(grant.first_day) == 90
    assert grant.days_left(grant.first_day - 5) == 90
    assert grant.days_left(grant.last_day) == 1
    assert not grant.is_over(grant.last_day)
    assert grant.is_over(grant.last_day + 1)
    assert grant.days_left(grant.last_day + 1) == 0


@pytest.mark.parametrize("body", [TRC, CREDIT])
def test_a_grant_survives_being_written_down(body: dict[str, Any]) -> None:
    grant = grant_from_json("mine", body)
    assert grant_from_json("mine", grant.to_json()) == grant


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kind": "gift"}, "'gift' is not a kind of grant"),
        ({"starts_on": "soon"}, "'soon' is not a valid first day of a grant"),
        ({"days": 0}, "'0' is not a valid number of days"),
        ({"days": -90}, "'-90' is not a valid number of days"),
        ({"days": 1e9}, "is not a valid number of days"),
        ({"days": True}, "'True' is not a valid number of days"),
        ({"days": 90, "ends_on": "2027-01-01"}, "either a last day or a number of days"),
        ({"days": None}, "either a last day or a number of days"),
        ({"days": None, "ends_on": "2026-10-31"}, "ends before it starts"),
        ({"days": None, "ends_on": "2062-10-31"}, "longer than ten years"),
        ({"starts_on": "2100-12-01"}, "is not a valid last day"),
        ({"usd": 300}, "and no amount of money"),
        ({"rows": []}, "needs rows of chips"),
        ({"rows": None}, "needs rows of chips"),
        ({"rows": "32 chips"}, "'rows' is not a list"),
        ({"rows": [32]}, "A row of the grant is not an object"),
        ({"rows": [ROW, ROW]}, "two rows for the same chips"),
        ({"rows": [{**ROW, "chips": 0}]}, "'0' is not a number of chips"),
        ({"rows": [{**ROW, "chips": -32}]}, "'-32' is not a number of chips"),
        ({"rows": [{**ROW, "chips": 10**12}]}, "is not a number of chips"),
        ({"rows": [{**ROW, "chips": 1.5}]}, "'1.5' is not a number of chips"),
        ({"rows": [{**ROW, "generation": "v99"}]}, "'v99' is not a TPU generation"),
        ({"rows": [{**ROW, "generation": ["v4"]}]}, "is not a TPU generation"),
        ({"rows": [{**ROW, "zone": "us-centrl1-a"}]}, "'us-centrl1-a' is not a Cloud TPU zone"),
        ({"rows": [{**ROW, "zone": None}]}, "'None' is not a Cloud TPU zone"),
        ({"rows": [{**ROW, "spot": "yes"}]}, "'spot' of a row must be true or false"),
        ({"rows": [{**ROW, "device": "v2-8"}]}, "'v2-8' is not an accelerator type of v5e"),
        ({"rows": [{**ROW, "price": 0}]}, "unknown fields: 'price'"),
        ({"currency": "EUR"}, "unknown fields: 'currency'"),
    ],
)
def test_absurd_grants_are_refused_in_words(change: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput, match=why) as refused:
        grant_from_json("mine", {**TRC, **change})
    assert refused.value.hint


@pytest.mark.parametrize("usd", [None, 0, -300, float("nan"), float("inf"), 10**400, -(10**400), 1e12, "300", True])
def test_absurd_credits_are_refused(usd: Any) -> None:
    with pytest.raises(BadInput, match=r"amount (of|for) (the|a) credit"):
        grant_from_json("mine", {**CREDIT, "usd": usd})


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "x" * 64, "<b>"])
def test_absurd_names_are_refused(name: str) -> None:
    with pytest.raises(BadInput, match="is not a valid grant name"):
        grant_from_json(name, TRC)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from([*TRC, "usd", "ends_on"]), JSON, st.sampled_from([TRC, CREDIT]))
def test_a_wild_body_is_a_grant_or_bad_input(field: str, value: Any, body: dict[str, Any]) -> None:
    try:
        grant = grant_from_json("mine", {**body, field: value})
    except BadInput:
        return
    assert grant.first_day <= grant.last_day


def test_every_node_that_holds_quota_uses_chips() -> None:
    grant = grant_from_json("trc", TRC)
    nodes = [node("a", state="PREEMPTED"), node("b", "v5litepod-4", state="STOPPED", spot=False, preemptible=True)]
    allotment = allot([grant], nodes, today=TODAY)
    assert (allotment.used_of(grant, 0), allotment.free_of(grant, 0)) == (20, 12)


@pytest.mark.parametrize(
    "other",
    [
        node("a", zone="us-west4-a"),
        node("a", spot=False),
        node("a", reserved=True),
        node("a", "v6e-16"),
        node("a", "v5litepod-64"),  # more than there are: it is not covered at all
    ],
)
def test_a_node_outside_the_grant_uses_none_of_it(other: Node) -> None:
    grant = grant_from_json("trc", TRC)
    assert allot([grant], [other], today=TODAY).used_of(grant, 0) == 0


def test_the_chips_go_to_the_oldest_nodes() -> None:
    first, second = (grant_from_json(name, TRC) for name in ("first", "second"))
    nodes = [node(f"n{number}", create_time=f"2026-11-1{number}T00:00:00Z") for number in range(3)]
    allotment = allot([first, second], nodes, today=TODAY)
    assert [allotment.used_of(grant, 0) for grant in (first, second)] == [32, 16]


def test_a_grant_that_does_not_hold_is_used_by_nobody() -> None:
    grant = grant_from_json("trc", {**TRC, "days": 3})
    assert allot([grant], [node("a")], today=TODAY).used_of(grant, 0) == 0


def test_devices_are_for_nodes_of_their_type_only() -> None:
    row = {"chips": 20, "generation": "v2", "spot": False, "zone": "us-central1-f", "device": "v2-8"}
    grant = grant_from_json("trc", {**TRC, "rows": [row]})
    here = {"zone": "us-central1-f", "spot": False}
    allotment = allot([grant], [node("a", "v2-8", **here), node("b", "v2-32", **here)], today=TODAY)
    assert allotment.used_of(grant, 0) == 4


def test_a_device_may_be_named_as_its_generation_is() -> None:
    row = {"chips": 8, "generation": "v5e", "spot": True, "zone": "us-central1-a", "device": "v5e-8"}
    grant = grant_from_json("trc", {**TRC, "rows": [row]})
    assert grant.rows[0].device == "v5litepod-8"
    assert allot([grant], [node("a", "v5litepod-8")], today=TODAY).used_of(grant, 0) == 8


def test_what_is_not_known_is_not_counted() -> None:
    grant = grant_from_json("trc", TRC)
    assert allot([grant], None, today=TODAY).free_of(grant, 0) is None
    assert allot([grant], [], today=TODAY, unreachable=["us-central1-a"]).free_of(grant, 0) is None
    assert allot([grant], [], today=TODAY, unreachable=["us-west4-a"]).free_of(grant, 0) == 32
    assert allot([grant], [node("a", "v12-4")], today=TODAY).free_of(grant, 0) is None


NODES = st.builds(
    node,
    st.from_regex(r"[a-z]{1,3}", fullmatch=True),
    st.sampled_from(["v5litepod-4", "v5litepod-16", "v5litepod-64", "v6e-4", ""]),
    zone=st.sampled_from(["us-central1-a", "us-west4-a"]),
    spot=st.booleans(),
)


@given(st.lists(NODES, max_size=12), st.lists(st.integers(1, 128), min_size=1, max_size=3))
def test_no_row_gives_more_than_it_has(nodes: list[Node], chips: list[int]) -> None:
    grants = [grant_from_json(f"g{n}", {**TRC, "rows": [{**ROW, "chips": each}]}) for n, each in enumerate(chips)]
    allotment = allot(grants, nodes, today=TODAY)
    for grant in grants:
        used, free = allotment.used_of(grant, 0), allotment.free_of(grant, 0)
        if used is not None and free is not None:
            assert used + free == grant.rows[0].chips


def test_a_day_ends_at_midnight_in_utc() -> None:
    assert day_text(day_of(1795391999.9)) == "2026-11-22"
    assert day_text(day_of(1795392000.0)) == "2026-11-23"
