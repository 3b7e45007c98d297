"""What is shown of the ledger and the budgets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from jupyter_tpu.errors import JournalUnwritable
from jupyter_tpu.models import Node, NodeName
from jupyter_tpu.money.budgets import BrokenBudget, budget_from_json
from jupyter_tpu.money.spans import HOUR_S, Span
from jupyter_tpu.money.spending import Account, NodeCost, node_cost, node_costs, spend_view

NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()  # a Wednesday


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


def utc(_: float) -> float:
    return 0.0


def shown(*spans: Span, budgets: tuple[Any, ...] = (), is_complete: bool = True) -> dict[str, Any]:
    account = Account(spans=spans, budgets=budgets, now=NOON, offset_at=utc)
    return spend_view(account, as_of=NOON, is_complete=is_complete)


def test_sums_are_for_today_the_week_the_month_and_all() -> None:
    view = shown(span(30 * 24, 1), span(10 * 24, 1), span(30, 1), span(1, 1, is_open=True))
    sums = [view[field]["usd"] for field in ("today", "week", "month", "total")]
    assert sums == pytest.approx([10.0, 20.0, 30.0, 40.0])
    assert view["usd_per_hour"] == 10.0
    assert view["is_complete"] is True


def test_a_node_is_one_row_with_all_it_has_cost_and_another_life_is_another() -> None:
    view = shown(span(5, 1), span(3, 1), span(1, 1, uid="2", is_open=True), span(60 * 24, 1, uid="0"))
    rows = [(row["node_id"], row["usd"], row["is_open"]) for row in view["nodes"]]
    assert rows == [("my-node", pytest.approx(20.0), False), ("my-node", pytest.approx(10.0), True)]


def test_an_unknown_price_is_shown_as_unknown_beside_what_is_known() -> None:
    view = shown(span(5, 1), span(1, 1, uid="2", accelerator_type="v2-8", usd_per_hour=None, is_open=True))
    assert (view["usd_per_hour"], view["unpriced"]) == (None, ["v2-8"])
    assert (view["total"]["usd"], view["total"]["known_usd"]) == (None, pytest.approx(10.0))


def test_what_nobody_watched_makes_it_incomplete() -> None:
    assert shown(span(5, 1, unwatched_after_s=300.0))["is_complete"] is False
    assert shown(span(60 * 24, 1, unwatched_before_s=300.0))["is_complete"] is True
    assert shown(is_complete=False)["is_complete"] is False


def test_a_budget_that_cannot_be_read_is_shown_as_used_up_with_the_reason() -> None:
    good = budget_from_json("b", {"amount": 20, "unit": "usd", "period": "day"})
    broken = BrokenBudget(name="a", error=JournalUnwritable("It is damaged.", hint="Set it again."))
    first, second = shown(span(1, 1), budgets=(good, broken))["budgets"]
    assert (first["name"], first["level"], first["amount"], first["used"]) == ("a", "100", None, None)
    assert "Set it again." in first["error"]
    assert (second["name"], second["level"], second["error"]) == ("b", "50", None)


def test_what_a_node_has_cost_is_that_of_this_very_node() -> None:
    costs = node_costs([span(5, 1), span(1, 1, uid="2")], NOON)
    assert node_cost(costs, Node(name=NAME, state="READY", uid="2")).usd == pytest.approx(10.0)
    assert node_cost(costs, Node(name=NAME, state="READY", uid="3")) == NodeCost()
