"""What was spent hour by hour and day by day, and how a budget came to be used."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.errors import BadInput
from jupyter_tpu.models import NodeName
from jupyter_tpu.money.budgets import Budget, Unit
from jupyter_tpu.money.burn_down import STEPS, burn_down_view
from jupyter_tpu.money.spans import HOUR_S, Span, Window, at_worst, cost
from jupyter_tpu.money.spend_history import MAX_SLOTS, By, edges, history, history_view
from jupyter_tpu.money.spending import Account

NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()
DAY_S = 24 * HOUR_S
UNITS: tuple[Unit, Unit] = ("usd", "hours")


def span(hours_ago: float, hours: float, **changes: Any) -> Span:
    values: dict[str, Any] = {
        "name": NAME,
        "uid": "1",
        "accelerator_type": "v5litepod-8",
        "spot": False,
        "usd_per_hour": 10.0,
        "is_open": False,
    }
    began_at = NOON - hours_ago * HOUR_S
    return Span(began_at=began_at, ended_at=began_at + hours * HOUR_S, **{**values, **changes})


def account(*spans: Span, now: float = NOON) -> Account:
    return Account(spans=spans, budgets=(), now=now, offset_at=utc)


def utc(_: float) -> float:
    return 0.0


def kathmandu(_: float) -> float:
    return 5.75 * HOUR_S


def clock(before_h: float, after_h: float, changed_at: datetime) -> Callable[[float], float]:
    return lambda at: (after_h if at >= changed_at.timestamp() else before_h) * HOUR_S


BERLIN_SPRING = clock(1, 2, datetime(2026, 3, 29, 1, tzinfo=UTC))
BERLIN_AUTUMN = clock(2, 1, datetime(2026, 10, 25, 1, tzinfo=UTC))
NEW_YORK_SPRING = clock(-5, -4, datetime(2026, 3, 8, 7, tzinfo=UTC))
NEW_YORK_AUTUMN = clock(-4, -5, datetime(2026, 11, 1, 6, tzinfo=UTC))


def test_each_hour_and_day_has_its_own_cost() -> None:
    view = history_view(account(span(2.5, 1), span(0.5, 0.5, is_open=True)), "hour", 3, utc)
    assert [slot["usd"] for slot in view["slots"]] == pytest.approx([5.0, 5.0, 0.0])
    view = history_view(account(span(36, 26)), "day", 3, utc)
    assert [(slot["day"], slot["usd"]) for slot in view["slots"]] == [
        ("2026-11-16", 0.0),
        ("2026-11-17", pytest.approx(240.0)),
        ("2026-11-18", pytest.approx(20.0)),
    ]
    assert view["sum"]["usd"] == pytest.approx(260.0)


def test_an_unknown_price_is_in_no_sum_and_makes_its_slot_unknown() -> None:
    unpriced = span(2, 1, accelerator_type="v2-8", usd_per_hour=None)
    view = history_view(account(unpriced, span(1, 1)), "hour", 3, utc)
    assert [(slot["usd"], slot["known_usd"], slot["unpriced_s"]) for slot in view["slots"]] == [
        (None, 0.0, HOUR_S),
        (pytest.approx(10.0), pytest.approx(10.0), 0.0),
        (0.0, 0.0, 0.0),
    ]
    assert (view["sum"]["usd"], view["unpriced"]) == (None, ["v2-8"])
    assert history_view(account(unpriced), "hour", 1, utc)["unpriced"] == []  # it was before


def test_what_nobody_watched_is_told_apart_from_what_was_seen() -> None:
    view = history_view(account(span(3, 1, unwatched_after_s=HOUR_S)), "hour", 4, utc)
    slots = [(slot["usd"], slot["up_to_usd"], slot["unwatched_s"]) for slot in view["slots"]]
    assert slots == [
        (pytest.approx(10.0), pytest.approx(10.0), 0.0),
        (0.0, pytest.approx(10.0), HOUR_S),
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
    ]


@pytest.mark.parametrize(
    ("now", "offset_at", "hours"),
    [
        (datetime(2026, 3, 30, 9, tzinfo=UTC), BERLIN_SPRING, [24, 23, 24]),
        (datetime(2026, 10, 26, 9, tzinfo=UTC), BERLIN_AUTUMN, [24, 25, 24]),
        (datetime(2026, 3, 9, 9, tzinfo=UTC), NEW_YORK_SPRING, [24, 23, 24]),
        (datetime(2026, 11, 2, 9, tzinfo=UTC), NEW_YORK_AUTUMN, [24, 25, 24]),
        (datetime(2026, 11, 1, 5, 30, tzinfo=UTC), NEW_YORK_AUTUMN, [24, 24, 25]),
        (datetime(2026, 11, 2, 23, tzinfo=UTC), kathmandu, [24, 24, 24]),
    ],
)
def test_a_day_on_which_the_clock_is_changed_is_shorter_or_longer(
    now: datetime, offset_at: Callable[[float], float], hours: list[int]
) -> None:
    at = edges("day", 3, now.timestamp(), offset_at)
    assert [(end - start) / HOUR_S for start, end in itertools.pairwise(at)] == hours
    assert all((moment + offset_at(moment)) % DAY_S == 0 for moment in at)
    days = [slot["day"] for slot in history_view(account(now=now.timestamp()), "day", 3, offset_at)["slots"]]
    assert len(set(days)) == 3


@pytest.mark.parametrize("by", ["hour", "day"])
@pytest.mark.parametrize("offset_at", [utc, kathmandu, BERLIN_AUTUMN, NEW_YORK_SPRING])
def test_the_last_slot_is_the_one_that_it_is_now(by: By, offset_at: Callable[[float], float]) -> None:
    for now in (NOON, NOON - 1, NOON - NOON % DAY_S, datetime(2026, 10, 25, 1, 30, tzinfo=UTC).timestamp()):
        at = edges(by, 2, now, offset_at)
        assert (len(at), at[-2] <= now < at[-1]) == (3, True)


@pytest.mark.parametrize(("by", "last"), [("hour", 0), ("hour", MAX_SLOTS["hour"] + 1), ("day", -1), ("day", 93)])
def test_more_slots_than_anybody_reads_are_refused(by: By, last: int) -> None:
    with pytest.raises(BadInput, match="cannot be shown"):
        edges(by, last, NOON, utc)


SPANS = st.lists(
    st.builds(
        span,
        st.floats(0, 24 * 40),
        st.floats(0, 24 * 20),
        usd_per_hour=st.none() | st.sampled_from([0.0, 1.2, 9.6, 4_096.5]),
        is_open=st.booleans(),
        unwatched_before_s=st.floats(0, 2 * DAY_S),
        unwatched_after_s=st.floats(0, 2 * DAY_S),
    ),
    max_size=12,
)
SLOTS = st.one_of(
    st.tuples(st.just("hour"), st.integers(1, MAX_SLOTS["hour"])),
    st.tuples(st.just("day"), st.integers(1, MAX_SLOTS["day"])),
)
OFFSETS = st.sampled_from([utc, kathmandu, BERLIN_AUTUMN, NEW_YORK_AUTUMN])


@given(SPANS, SLOTS, OFFSETS)
def test_all_slots_together_are_what_the_ledger_says_of_the_same_time(
    spans: list[Span], asked: tuple[By, int], offset_at: Callable[[float], float]
) -> None:
    at = edges(*asked, NOON, offset_at)
    slots, window = history(account(*spans), at), Window(starts_at=at[0], ends_at=at[-1])
    seen, longest = cost(spans, window, NOON), cost(map(at_worst, spans), window, NOON)
    assert len(slots) == asked[1]
    assert sum(slot.known_usd for slot in slots) == pytest.approx(seen.known_usd, abs=1e-6)
    assert sum(slot.up_to_usd for slot in slots) == pytest.approx(longest.known_usd, abs=1e-6)
    assert sum(slot.ready_s for slot in slots) == pytest.approx(seen.ready_s, abs=1e-3)
    assert any(slot.usd is None for slot in slots) == bool(seen.unpriced)


@given(SPANS, st.sampled_from(UNITS), st.sampled_from(["day", "week", "month", "total"]))
def test_the_course_of_a_budget_rises_to_what_is_used_of_it_now(spans: list[Span], unit: Unit, period: Any) -> None:
    books = account(*spans)
    view = burn_down_view(Budget(name="mine", amount=100.0, unit=unit, period=period), books)
    points, budget = view["points"], view["budget"]
    assert (len(points), points[0]["at"], points[-1]["at"]) == (STEPS + 1, budget["window_start"], NOON)
    assert all(first["used"] <= then["used"] for first, then in itertools.pairwise(points))
    assert all(point["watched"] <= point["used"] for point in points)
    assert points[-1]["used"] == pytest.approx(budget["used"], abs=1e-6)


def test_the_course_of_a_budget_is_that_of_its_window() -> None:
    spans = (span(36, 1), span(6, 2, unwatched_after_s=HOUR_S))
    view = burn_down_view(Budget(name="mine", amount=100.0, unit="hours", period="day"), account(*spans))
    last = view["points"][-1]
    assert (last["used"], last["watched"]) == (pytest.approx(3.0), pytest.approx(2.0))
    assert view["points"][0] == {"at": NOON - 12 * HOUR_S, "used": 0.0, "watched": 0.0}


def test_the_course_of_a_budget_names_what_it_counts_as_the_dearest() -> None:
    spans = (
        span(36, 1, accelerator_type="v3-8", usd_per_hour=None),
        span(6, 2, accelerator_type="v2-8", usd_per_hour=None),
    )
    dollars, hours = (Budget(name="mine", amount=100.0, unit=unit, period="day") for unit in UNITS)
    assert burn_down_view(dollars, account(*spans))["unpriced"] == ["v2-8"]
    assert burn_down_view(hours, account(*spans))["unpriced"] == []
