"""The cost of nodes and the usage of budgets, for the REST API and the CLI's ``--json``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from jupyter_tpu.models import Node
from jupyter_tpu.money.budgets import BrokenBudget, Budget, Period, Usage, usage_of, window_of
from jupyter_tpu.money.days import OffsetAt
from jupyter_tpu.money.spans import EVER, Cost, Span, Window, cost

JSON = dict[str, Any]
CURRENCY = "USD"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCost:
    """What a node has cost.

    Attributes:
        usd: US dollars; None if the node is not in the ledger or a price is unknown.
        is_covered: whether a TRC grant covers the node now.
    """

    usd: float | None = None
    is_covered: bool = False


NodeCosts = Mapping[tuple[str, str], NodeCost]
"""Costs of nodes by full name and uid."""

NO_COSTS: NodeCosts = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The ledger and the budgets of a project at one time.

    Attributes:
        spans: the nodes' spans, sorted by start time.
        now: the time for which costs are computed (Unix seconds).
        offset_at: the offset of the user's wall clock.
        worst: the spans with their maximum durations, see `spans.at_worst`; None if not computed.
    """

    spans: Sequence[Span]
    budgets: Sequence[Budget | BrokenBudget]
    now: float
    offset_at: OffsetAt
    worst: Sequence[Span] | None = None

    def usages(self) -> list[tuple[Budget, Usage]]:
        """Return all readable budgets with their usage."""
        readable = (budget for budget in self.budgets if isinstance(budget, Budget))
        return [(budget, self.usage(budget)) for budget in readable]

    def usage(self, budget: Budget) -> Usage:
        """Return the usage of a budget."""
        return usage_of(budget, self.spans, self.now, self.offset_at, worst=self.worst)

    def broken(self) -> list[BrokenBudget]:
        """Return the unreadable budgets."""
        return [budget for budget in self.budgets if isinstance(budget, BrokenBudget)]

    def window(self, period: Period) -> Window:
        """Return the current calendar day, week (from Monday) or month."""
        # a budget with the default reset has the calendar's periods; its amount is not used
        whole = Budget(name=period, amount=1.0, unit="usd", period=period)
        return window_of(whole, self.now, self.offset_at)


def node_costs(spans: Iterable[Span], now: float) -> NodeCosts:
    """Return the cost of each node in the ledger, by full name and uid.

    Args:
        spans: with the price 0 where a grant covers them, see `as_billed`.
    """
    return {
        key: NodeCost(usd=cost(own, EVER, now).usd, is_covered=own[-1].is_open and own[-1].usd_per_hour == 0)
        for key, own in _by_node(spans).items()
    }


def node_cost(costs: NodeCosts, node: Node) -> NodeCost:
    """Return the cost of a node; it is unknown if the node is not in the ledger."""
    return costs.get((str(node.name), node.uid), NodeCost())


def spend_view(account: Account, *, as_of: float | None, is_complete: bool) -> JSON:
    """Return the body of ``GET spend``.

    Args:
        as_of: when the nodes were last observed (Unix seconds); None if never.
        is_complete: whether all zones responded at that time.
    """
    open_spans = [span for span in account.spans if span.is_open]
    month = account.window("month")
    recent = recent_nodes(account)
    unwatched = any(span.unwatched_s for own in recent for span in own)
    return {
        "as_of": as_of,
        "currency": CURRENCY,
        "usd_per_hour": _rate(open_spans),
        "unpriced": list(cost(account.spans, EVER, account.now).unpriced),
        "is_complete": is_complete and not unwatched,
        "nodes": [_node_view(own, account.now) for own in recent],
        "total": _cost_view(cost(account.spans, EVER, account.now)),
        "today": _cost_view(cost(account.spans, account.window("day"), account.now)),
        "week": _cost_view(cost(account.spans, account.window("week"), account.now)),
        "month": _cost_view(cost(account.spans, month, account.now)),
        "budgets": budgets_view(account),
    }


def recent_nodes(account: Account) -> list[list[Span]]:
    """Return the spans of each node that was READY this month, in the order of the view's ``nodes``."""
    # earlier nodes are only in the total, so that the list doesn't grow forever
    month = account.window("month")
    return [own for own in _by_node(account.spans).values() if _is_recent(own, month)]


def _by_node(spans: Iterable[Span]) -> dict[tuple[str, str], list[Span]]:
    found: dict[tuple[str, str], list[Span]] = {}
    for span in spans:
        found.setdefault((str(span.name), span.uid), []).append(span)
    return found


def _is_recent(spans: Sequence[Span], month: Window) -> bool:
    return any(span.is_open or span.ended_at >= month.starts_at for span in spans)


def _rate(open_spans: Sequence[Span]) -> float | None:
    prices = [span.usd_per_hour for span in open_spans]
    return None if None in prices else sum(price for price in prices if price is not None)


def _cost_view(spent: Cost) -> JSON:
    return {"usd": spent.usd, "known_usd": spent.known_usd, "ready_s": spent.ready_s}


def _node_view(spans: Sequence[Span], now: float) -> JSON:
    last, spent = spans[-1], cost(spans, EVER, now)
    return {
        "name": str(last.name),
        "node_id": last.name.node_id,
        "zone": last.name.zone,
        "accelerator_type": last.accelerator_type,
        "spot": last.spot,
        "provisioning": last.terms,
        "usd_per_hour": last.usd_per_hour,
        "price_source": last.price_source if last.usd_per_hour and last.price_source else None,
        "ready_s": spent.ready_s,
        "usd": spent.usd,
        "is_open": last.is_open,
        "unwatched_s": sum(span.unwatched_s for span in spans),
    }


def budgets_view(account: Account) -> list[JSON]:
    """Return all budgets with their usage, sorted by name."""
    views = [budget_view(budget, usage, account) for budget, usage in account.usages()]
    views += [_broken_view(broken) for broken in account.broken()]
    return sorted(views, key=lambda view: str(view["name"]))


def budget_view(budget: Budget, usage: Usage, account: Account) -> JSON:
    """Return a budget with its usage."""
    began = usage.window.starts_at
    if budget.period == "total":  # this period has no start, so show the start of the ledger
        began = min((span.began_at for span in account.spans), default=account.now)
    return {
        "name": budget.name,
        **budget.to_json(),
        "used": usage.used,
        "unwatched": usage.unwatched,
        "fraction": usage.fraction,
        "level": usage.level,
        "window_start": began,
        "window_end": usage.window.ends_at,
        "runs_out_at": usage.runs_out_at,
        "error": None,
    }


def _broken_view(broken: BrokenBudget) -> JSON:
    """Return the view of a budget that can't be read, with unknown settings.

    The budget is shown as used up, because it blocks all spending.
    """
    return {
        "name": broken.name,
        **dict.fromkeys(("amount", "unit", "period", "resets_on", "resets_at", "action")),
        "used": None,
        "unwatched": None,
        "fraction": None,
        "level": "100",
        "window_start": None,
        "window_end": None,
        "runs_out_at": None,
        "error": str(broken.error),
    }
