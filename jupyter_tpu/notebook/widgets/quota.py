"""The view of `QuotaAndCredit`: cost, budgets, quota and grants, which the user's own machine sends to the node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jupyter_tpu.errors import Text, joined
from jupyter_tpu.i18n import shown
from jupyter_tpu.notebook.display import UNKNOWN
from jupyter_tpu.notebook.magics.money import (
    NO_QUOTA,
    NONE_ENTERED,
    PARTIAL_COST,
    PARTIAL_QUOTA,
    UNLIMITED,
    amount_per_period,
    cost,
    grant,
    grant_lines,
    no_snapshot_lines,
    node_lines,
    quota,
    snapshot_call,
    snapshot_of,
    spent_text,
    terms_text,
    unreadable_snapshot,
    usd,
)
from jupyter_tpu.notebook.widgets.view import CallAgent, Data, View

JSON = Mapping[str, Any]
Row = Sequence[Any]
"""A name, a text and the used share (0 to 1); the share is None if it is unknown."""


def read(ask: CallAgent, _whole: bool) -> Data:
    """Return the sections of the widget, each with the time of its snapshot."""
    # Don't include the current time or other changing values: the widget sends a trait only when it changes.
    return {"parts": [_part(ask, *part) for part in _PARTS]}


def _part(ask: CallAgent, kind: str, title: str, lines: Callable[[JSON], list[str]], rows: Any) -> dict[str, Any]:
    known = snapshot_of(ask(*snapshot_call(kind)))
    part: dict[str, Any] = {"title": shown(title), "as_of": None, "rows": []}
    if known is None:
        return {**part, "lines": list(map(shown, no_snapshot_lines(kind)))}
    try:
        found = [(shown(name), shown(text), share) for name, text, share in rows(known.data)]
        return {**part, "as_of": known.as_of, "lines": list(map(shown, lines(known.data))), "rows": found}
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise unreadable_snapshot(error) from error


# -- cost and budgets


def _cost_lines(view: JSON) -> list[str]:
    return [*node_lines(view), *_partial(view, PARTIAL_COST)]


def _cost_rows(view: JSON) -> Iterator[Row]:
    yield Text("All nodes, today"), spent_text(view["today"]), None
    yield Text("this week"), spent_text(view["week"]), None
    yield Text("this month"), spent_text(view["month"]), None


def _budget_lines(view: JSON) -> list[str]:
    return [] if view["budgets"] else [Text("No budget is set.")]


def _budget_rows(view: JSON) -> Iterator[Row]:
    for each in view["budgets"]:
        if each["error"] or each["amount"] is None:
            yield each["name"], Text("cannot be read, so it blocks spending: {error}", error=each["error"]), None
            continue
        used, amount = (_amount(each[name], each["unit"]) for name in ("used", "amount"))
        allowed = amount_per_period(amount, str(each["period"]))
        yield each["name"], Text("{used} of {amount}", used=used, amount=allowed), each["fraction"]


def _amount(value: float | None, unit: str) -> str:
    if unit == "usd":
        return usd(value)
    return UNKNOWN if value is None else f"{value:.1f} h"


# -- quota, grants and credit


def _quota_lines(view: JSON) -> list[str]:
    error = [view["error"]["message"]] if view["error"] else []
    none = [] if view["limits"] else [NO_QUOTA]
    partial = _partial(view, PARTIAL_QUOTA)
    return [*error, *partial, *none]


def _quota_rows(view: JSON) -> Iterator[Row]:
    for row in view["limits"]:
        name = f"{row['label']} · {row['location']}"
        limit = UNLIMITED if row["is_unlimited"] else UNKNOWN if row["limit"] is None else row["limit"]
        text = Text("{used} of {limit} {unit}", used=row["used"], limit=limit, unit=row["unit"])
        yield name, text, _share(row["used"], limit)


def _grant_rows(view: JSON) -> Iterator[Row]:
    for each in view["grants"]:
        yield each["name"], joined(grant_lines(each), ", "), _share(each["usd_used"], each["usd"])
        for row in each["rows"]:
            name = joined((each["name"], row["generation"], row["zone"], terms_text(row)), " · ")
            used = UNKNOWN if row["used"] is None else row["used"]
            yield (
                name,
                Text("{used} of 1 chip", used=used)
                if row["chips"] == 1
                else Text("{used} of {chips} chips", used=used, chips=row["chips"]),
                _share(row["used"], row["chips"]),
            )


def _grant_lines(view: JSON) -> list[str]:
    return [] if view["grants"] else [NONE_ENTERED]


def _share(used: Any, most: Any) -> float | None:
    return used / most if isinstance(used, (int, float)) and isinstance(most, (int, float)) and most else None


def _partial(view: JSON, warning: str) -> list[str]:
    return [] if view["is_complete"] else [warning]


_PARTS = (
    ("cost", Text("Cost"), _cost_lines, _cost_rows),
    ("budget", Text("Budgets"), _budget_lines, _budget_rows),
    ("quota", Text("Quota"), _quota_lines, _quota_rows),
    ("grant", Text("Grants and credit"), _grant_lines, _grant_rows),
)

QUOTA = View(
    title=Text("Quota and credit"), script="quota.js", every_s=15.0, read=read, subcommands=(cost, quota, grant)
)
