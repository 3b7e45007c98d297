"""The view behind `QuotaAndCredit`: cost, budgets, quota and grants, as the user's own machine sent them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jupyter_tpu.notebook.display import UNKNOWN
from jupyter_tpu.notebook.magics.money import (
    cost,
    grant,
    grant_lines,
    no_snapshot_lines,
    node_lines,
    quota,
    snapshot_call,
    snapshot_of,
    unreadable_snapshot,
    usd,
)
from jupyter_tpu.notebook.widgets.view import CallAgent, Data, View

JSON = Mapping[str, Any]
Row = Sequence[Any]
"""A name, a text, and the used share from 0 to 1, or None if it is unknown."""


def read(ask: CallAgent, _whole: bool) -> Data:
    """Return the four parts, each with the time of its snapshot."""
    # Nothing else, such as the current time: a trait that does not change is not sent.
    return {"parts": [_part(ask, *part) for part in _PARTS]}


def _part(ask: CallAgent, kind: str, title: str, lines: Callable[[JSON], list[str]], rows: Any) -> dict[str, Any]:
    known = snapshot_of(ask(*snapshot_call(kind)))
    if known is None:
        return {"title": title, "as_of": None, "lines": no_snapshot_lines(kind), "rows": []}
    try:
        return {"title": title, "as_of": known.as_of, "lines": lines(known.data), "rows": list(rows(known.data))}
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise unreadable_snapshot(error) from error


# -- cost and budgets


def _cost_lines(view: JSON) -> list[str]:
    return [*node_lines(view), *_partial(view, "Partial: some time was unmonitored, so the cost may be higher.")]


def _cost_rows(view: JSON) -> Iterator[Row]:
    for name, title in (("today", "All nodes, today"), ("week", "this week"), ("month", "this month")):
        spent = view[name]
        at_least = f"{UNKNOWN}, at least {usd(spent['known_usd'])}" if spent["known_usd"] else UNKNOWN
        yield title, at_least if spent["usd"] is None else usd(spent["usd"]), None


def _budget_lines(view: JSON) -> list[str]:
    return [] if view["budgets"] else ["No budget is set."]


def _budget_rows(view: JSON) -> Iterator[Row]:
    for each in view["budgets"]:
        if each["error"] or each["amount"] is None:
            yield each["name"], f"cannot be read, so it blocks spending: {each['error']}", None
            continue
        per = "in all" if each["period"] == "total" else f"per {each['period']}"
        used, amount = (_amount(each[name], each["unit"]) for name in ("used", "amount"))
        yield each["name"], f"{used} of {amount} {per}", each["fraction"]


def _amount(value: float | None, unit: str) -> str:
    if unit == "usd":
        return usd(value)
    return UNKNOWN if value is None else f"{value:.1f} h"


# -- quota, grants and credit


def _quota_lines(view: JSON) -> list[str]:
    error = [view["error"]["message"]] if view["error"] else []
    none = [] if view["limits"] else ["No known quota limits this node."]
    partial = _partial(view, "Partial: some use of quota was not visible, so less may be free.")
    return [*error, *partial, *none]


def _quota_rows(view: JSON) -> Iterator[Row]:
    for row in view["limits"]:
        name = f"{row['label']} · {row['location']}"
        limit = "unlimited" if row["is_unlimited"] else row["limit"]
        yield name, f"{row['used']} of {UNKNOWN if limit is None else limit} {row['unit']}", _share(row["used"], limit)


def _grant_rows(view: JSON) -> Iterator[Row]:
    for each in view["grants"]:
        yield each["name"], ", ".join(grant_lines(each)), _share(each["usd_used"], each["usd"])
        for row in each["rows"]:
            name = f"{each['name']} · {row['generation']} · {row['zone']} · {'spot' if row['spot'] else 'on demand'}"
            used = UNKNOWN if row["used"] is None else row["used"]
            yield name, f"{used} of {row['chips']} chips", _share(row["used"], row["chips"])


def _grant_lines(view: JSON) -> list[str]:
    return [] if view["grants"] else ["None entered."]


def _share(used: Any, most: Any) -> float | None:
    return used / most if isinstance(used, (int, float)) and isinstance(most, (int, float)) and most else None


def _partial(view: JSON, warning: str) -> list[str]:
    return [] if view["is_complete"] else [warning]


_PARTS = (
    ("cost", "Cost", _cost_lines, _cost_rows),
    ("budget", "Budgets", _budget_lines, _budget_rows),
    ("quota", "Quota", _quota_lines, _quota_rows),
    ("grant", "Grants and credit", _grant_lines, _grant_rows),
)

QUOTA = View(title="Quota and credit", script="quota.js", every_s=15.0, read=read, subcommands=(cost, quota, grant))
