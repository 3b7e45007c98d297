"""Compute the burn-down of a budget: its usage at several times from the start of its window until now."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from jupyter_tpu.money.budgets import Budget, Unit
from jupyter_tpu.money.spans import HOUR_S, Span, Window, at_worst
from jupyter_tpu.money.spend_history import spread, unpriced_types
from jupyter_tpu.money.spending import Account, budget_view

JSON = dict[str, Any]

STEPS = 96
"""Number of intervals in a burn-down: more points would be indistinguishable at the width of the panel."""


def burn_down_view(budget: Budget, account: Account) -> JSON:
    """Return a budget's current usage, and the points of its curve: used and observed amounts at `STEPS` + 1 times."""
    usage = account.usage(budget)
    view = budget_view(budget, usage, account)
    at = _moments(view["window_start"], account.now)
    worst = [at_worst(span) for span in account.spans] if account.worst is None else account.worst
    used, seen = (_risen(spans, at, usage.window, account.now, budget.unit) for spans in (worst, account.spans))
    return {
        "budget": view,
        "now": account.now,
        "points": [
            {"at": moment, "used": much, "watched": min(much, watched)}
            for moment, much, watched in zip(at, used, seen, strict=True)
        ],
        "unpriced": unpriced_types(account.spans, view["window_start"]) if budget.unit == "usd" else [],
    }


def _moments(began_at: float, now: float) -> list[float]:
    """Return the times of the points to draw, evenly spaced from the start of the window until now."""
    step_s = max(0.0, now - began_at) / STEPS
    return [began_at + number * step_s for number in range(STEPS)] + [max(began_at, now)]


def _risen(spans: Sequence[Span], at: Sequence[float], window: Window, now: float, unit: Unit) -> list[float]:
    """Return the cumulative usage at each time.

    The last value covers the whole window, so that it equals the budget's usage even if a clock was set back and some
    spans are in the future.
    """
    per_second = _usd_per_s if unit == "usd" else _hours_per_s
    edges = [window.starts_at, *at[:-1], math.inf if window.ends_at is None else window.ends_at]
    return list(itertools.accumulate(spread(spans, edges, now, per_second)))


def _usd_per_s(span: Span) -> float:
    return span.usd_per_hour_at_worst / HOUR_S


def _hours_per_s(_: Span) -> float:
    return 1.0 / HOUR_S
