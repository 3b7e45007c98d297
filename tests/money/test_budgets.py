"""Budgets as values: what makes sense, their windows, and how far they are used."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.errors import BadInput
from jupyter_tpu.models import NodeName
from jupyter_tpu.money.budgets import (
    Budget,
    amount_text,
    budget_from_json,
    level_of,
    moment_text,
    unmonitored_text,
    usage_of,
    usage_text,
    window_of,
)
from jupyter_tpu.money.spans import Span

GOOD: dict[str, Any] = {"amount": 20, "unit": "usd", "period": "week"}
NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()  # a Wednesday


def budget(**changes: Any) -> Budget:
    return budget_from_json("mine", {**GOOD, **changes})


def span(began_at: float, ended_at: float, **changes: Any) -> Span:
    values: dict[str, Any] = {
        "name": NAME,
        "uid": "1",
        "accelerator_type": "v5litepod-8",
        "spot": False,
        "usd_per_hour": 9.6,
        "is_open": False,
    }
    return Span(began_at=began_at, ended_at=ended_at, **{**values, **changes})


def utc(_: float) -> float:
    return 0.0


def test_a_budget_is_read_back_as_it_was_written() -> None:
    made = budget(resets_on="friday", resets_at="09:30", action="warn", amount=2.5)
    assert budget_from_json("mine", made.to_json()) == made
    assert budget().resets_on == "monday"
    assert (budget(period="day").resets_on, budget().resets_at, budget().action) == (None, "00:00", "stop")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"amount": -1}, "-1 is not an amount"),
        ({"amount": 0}, "0 is not an amount"),
        ({"amount": math.nan}, "nan is not an amount"),
        ({"amount": math.inf}, "inf is not an amount"),
        ({"amount": 5e-324}, "5e-324 is not an amount"),
        ({"amount": 10**400}, "is not an amount"),
        ({"amount": True}, "True is not an amount"),
        ({"amount": "20"}, "20 is not an amount"),
        ({"amount": None}, "None is not an amount"),
        ({"unit": "eur"}, "'eur' is not a valid unit or currency"),
        ({"unit": ["usd"]}, "is not a valid unit or currency"),
        ({"period": "year"}, "'year' is not a valid period"),
        ({"resets_on": "mon"}, "'mon' is not a valid weekday"),
        (
            {"period": "day", "resets_on": "monday"},
            "Only a weekly budget resets on a weekday; this budget's period is day.",
        ),
        ({"resets_at": "24:00"}, "'24:00' is not a time of day"),
        ({"resets_at": 9}, "'9' is not a time of day"),
        ({"action": "shout"}, "'shout' is not a valid action"),
        ({"currency": "EUR"}, "has no field 'currency'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        budget(**changes)
    assert message in refused.value.message
    assert refused.value.hint
    assert refused.value.exists == "No budget was changed."


@pytest.mark.parametrize(
    ("changes", "stops", "spares"),
    [
        ({}, True, True),
        ({"unit": "hours"}, True, False),
        ({"action": "stop-all"}, True, False),
        ({"action": "warn"}, False, False),
    ],
)
def test_a_budget_in_dollars_spares_what_a_grant_pays_for_unless_told_otherwise(
    changes: dict[str, Any], stops: bool, spares: bool
) -> None:
    made = budget(**changes)
    assert (made.stops_nodes, made.spares_granted) == (stops, spares)


@pytest.mark.parametrize("name", ["", " ", "a/b", "<b>", "x" * 64, "a\nb"])
def test_a_budget_has_a_harmless_name(name: str) -> None:
    with pytest.raises(BadInput, match="is not a valid budget name"):
        budget_from_json(name, GOOD)


def test_a_week_begins_on_the_day_and_at_the_hour_of_the_users_choice() -> None:
    window = window_of(budget(resets_on="tuesday", resets_at="09:00"), NOON, lambda _: 3600.0)
    assert window.starts_at == datetime(2026, 11, 17, 8, tzinfo=UTC).timestamp()
    assert window.ends_at == datetime(2026, 11, 24, 8, tzinfo=UTC).timestamp()


def test_a_month_is_the_calendars() -> None:
    window = window_of(budget(period="month"), NOON, utc)
    assert window.starts_at == datetime(2026, 11, 1, tzinfo=UTC).timestamp()
    assert window.ends_at == datetime(2026, 12, 1, tzinfo=UTC).timestamp()


def test_a_total_never_begins_anew() -> None:
    assert window_of(budget(period="total"), NOON, utc).ends_at is None


@given(
    now=st.integers(1_500_000_000, 3_000_000_000),
    offset_h=st.integers(-12, 14),
    period=st.sampled_from(["day", "week", "month"]),
    weekday=st.sampled_from(["monday", "wednesday", "sunday"]),
    resets_at=st.sampled_from(["00:00", "09:30", "23:59"]),
)
def test_windows_agree_with_the_calendar_and_follow_each_other(
    now: int, offset_h: int, period: str, weekday: str, resets_at: str
) -> None:
    changes = {"period": period, "resets_at": resets_at, **({"resets_on": weekday} if period == "week" else {})}
    wanted, offset_s = budget(**changes), offset_h * 3600.0
    window = window_of(wanted, now, lambda _: offset_s)
    assert window.ends_at is not None
    assert window.starts_at <= now < window.ends_at
    local = datetime.fromtimestamp(window.starts_at, timezone(timedelta(hours=offset_h)))
    assert local.strftime("%H:%M") == resets_at
    assert period != "week" or local.strftime("%A").lower() == weekday
    assert period != "month" or local.day == 1
    assert window_of(wanted, window.ends_at, lambda _: offset_s).starts_at == window.ends_at


def test_only_what_lies_in_the_window_counts() -> None:
    spans = [span(NOON - 30 * 86_400, NOON - 29 * 86_400), span(NOON - 3600, NOON)]
    usage = usage_of(budget(), spans, NOON, utc)
    assert usage.used == pytest.approx(9.6)
    assert usage.fraction == pytest.approx(0.48)
    assert (usage.level, usage.runs_out_at) == ("ok", None)
    assert usage_text(budget(), usage) == "$9.60 of $20.00 this week"


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0.0, "$0.00"),
        (1234.5, "$1,234.50"),
        (0.01, "$0.01"),
        (0.0567, "$0.06"),
        (0.0025, "$0.0025"),
        (1e-6, "$0.000001"),
        (1e-9, "$0.000001"),
    ],
)
def test_an_amount_has_cents_or_as_many_digits_as_it_needs(amount: float, text: str) -> None:
    assert amount_text(budget(), amount) == text


def test_hours_are_those_of_all_nodes_together() -> None:
    spans = [span(NOON - 3600, NOON), span(NOON - 1800, NOON, uid="2", usd_per_hour=None)]
    usage = usage_of(budget(unit="hours", amount=3), spans, NOON, utc)
    assert (usage.used, usage.level) == (1.5, "50")


def test_at_the_present_rate_it_runs_out_or_the_window_ends_before() -> None:
    running = [span(NOON - 3600, NOON, is_open=True)]
    assert usage_of(budget(amount=19.2), running, NOON, utc).runs_out_at == pytest.approx(NOON + 3600)
    assert usage_of(budget(amount=9.6), running, NOON, utc).runs_out_at == NOON
    assert usage_of(budget(amount=5000), running, NOON, utc).runs_out_at is None
    assert usage_of(budget(amount=1e9, period="total"), running, NOON, utc).runs_out_at is None
    lasting = usage_of(budget(amount=8e6, period="total"), running, NOON, utc).runs_out_at
    assert lasting is not None
    assert moment_text(lasting, 0.0).startswith("21")


def test_what_nobody_watched_counts_within_the_window_and_is_said() -> None:
    spans = [span(NOON - 3600, NOON - 1800, unwatched_before_s=30 * 86_400.0, unwatched_after_s=1800.0)]
    usage = usage_of(budget(amount=4.8, period="day"), spans, NOON, utc)
    assert usage.used == pytest.approx(12 * 9.6)
    assert usage.watched == pytest.approx(4.8)
    assert usage_text(budget(), usage) == "up to $115.20 of $20.00 this week"
    assert unmonitored_text(budget(), usage).startswith("Up to $110.40 of it is unmonitored time in which nodes may")
    assert unmonitored_text(budget(), usage_of(budget(), [span(NOON - 3600, NOON)], NOON, utc)) == ""


def test_an_unknown_price_counts_as_the_dearest() -> None:
    known = usage_of(budget(), [span(NOON - 3600, NOON)], NOON, utc)
    unknown = usage_of(budget(), [span(NOON - 3600, NOON, usd_per_hour=None)], NOON, utc)
    assert unknown.used > known.used


@pytest.mark.parametrize(
    ("fraction", "level"), [(0, "ok"), (0.499, "ok"), (0.5, "50"), (0.8, "80"), (0.999, "80"), (1.0, "100"), (7, "100")]
)
def test_a_level_is_the_last_threshold_that_was_reached(fraction: float, level: str) -> None:
    assert level_of(fraction) == level


def test_a_moment_is_written_by_the_local_clock() -> None:
    assert moment_text(NOON, 3600.0) == "2026-11-18 13:00"
