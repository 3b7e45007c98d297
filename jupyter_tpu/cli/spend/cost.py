"""The command `cost`: show the nodes' cost at list price, and the use of budgets."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from jupyter_tpu.cli.node_texts import dollars_text, emulated_text
from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.spend.billed import run_billed
from jupyter_tpu.cli.spend.budget import echo_budgets
from jupyter_tpu.cli.spend.cost_history import check_history_options, echo_history, history_of
from jupyter_tpu.cli.spend.ledger_access import ObservedSpend, observe_spend
from jupyter_tpu.cli.terminal import echo, echo_json, echo_table, note, plain
from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import Text, TpuError
from jupyter_tpu.fleet.spend.price_updater import PriceUpdater, failure_text
from jupyter_tpu.i18n import _, padded
from jupyter_tpu.money.budgets import moment_text
from jupyter_tpu.money.spending import recent_nodes, spend_view

_HEADER = ("NAME", "ZONE", "TYPE", "FIRST READY", "READY FOR", "PRICE", "PRICE SOURCE", "COST")
_TIMES = (
    ("today", Text("today")),
    ("week", Text("this week")),
    ("month", Text("this month")),
    ("total", Text("in total")),
)


def run_cost(options: argparse.Namespace) -> int:
    """Print the nodes' cost at list price, or Google's charges."""
    check_history_options(options)
    return run_billed(options) if options.billed else _run_spend(options)


def _run_spend(options: argparse.Namespace) -> int:
    failure = _prices_failure(options)
    seen = asyncio.run(observe_spend(options))
    view = history_of(options, seen.account) if options.by else _view(seen)
    is_emulated = cloud_settings(options).is_emulated
    if options.json:
        echo_json({**view, "emulated": is_emulated})
        return 0
    if options.by:
        echo_history(view)
    else:
        _show_spend(view, seen)
    if failure:
        note(_("Today's prices are unknown. {failure}", failure=plain(_(failure))))
    if is_emulated:
        note(emulated_text(seen.clock_rate))
    return 0


def _view(seen: ObservedSpend) -> dict[str, Any]:
    return spend_view(seen.account, as_of=seen.as_of, is_complete=seen.is_complete)


def _prices_failure(options: argparse.Namespace) -> str:
    """Read the Billing Catalog if requested. Return why the last read failed, or an empty string."""
    pricing, now = PriceUpdater.of_user(cloud_settings(options)), time.time()
    if options.refresh_prices:
        try:
            pricing.read(now)
        except TpuError as error:  # use the last known prices
            return failure_text(error)
    return pricing.stored().failure


def _show_spend(view: dict[str, Any], seen: ObservedSpend) -> None:
    if view["nodes"]:
        starts = (own[0].began_at for own in recent_nodes(seen.account))
        first = [moment_text(at, seen.account.offset_at(at)) for at in starts]
        echo_table(_HEADER, map(_row, view["nodes"], first))
        echo()
    for field, when in _TIMES:
        spent = view[field]
        ready = duration_text(spent["ready_s"])
        text = _("{cost} for {duration} of READY nodes", cost=_spent_text(spent), duration=ready)
        echo(padded(f"{_(when)}:", 12) + text)
    text = _("{cost}/h at list price", cost=dollars_text(view["usd_per_hour"]))
    echo(padded(f"{_('now')}:", 12) + text)
    if view["budgets"]:
        echo()
        echo_budgets(view["budgets"], seen.account)
    for text in doubts(view, all_answered=seen.is_complete):
        note(text)


def _row(node: dict[str, Any], first_ready: str) -> tuple[str, ...]:
    price = _("price unknown") if node["usd_per_hour"] is None else f"{dollars_text(node['usd_per_hour'])}/h"
    ready: str = duration_text(node["ready_s"])
    if node["is_open"]:
        ready = _("{duration}, still READY", duration=ready)
    source = _source_text(node["price_source"] or "")
    known = (node["node_id"], node["zone"], node["accelerator_type"], first_ready, ready)
    return (*known, price, source, dollars_text(node["usd"]))


def _source_text(origin: str) -> str:
    """Return the source of a price; see `Price.origin`."""
    kind, _space, date = origin.partition(" ")
    if not date:
        return origin
    return _("catalog {date}", date=date) if kind == "catalog" else _("price list {date}", date=date)


def _spent_text(spent: dict[str, Any]) -> str:
    if spent["usd"] is not None:
        return dollars_text(spent["usd"])
    # if some prices are unknown, the sum is only a lower bound
    return _("at least {cost} (some prices are unknown)", cost=dollars_text(spent["known_usd"]))


def doubts(view: dict[str, Any], *, all_answered: bool) -> Iterable[str]:
    """Return sentences that explain what the sums omit and why they may be wrong.

    Args:
        view: see `spend_view`.
        all_answered: whether all zones responded.
    """
    if view["unpriced"]:
        types = plain(", ".join(view["unpriced"]))
        yield _("No list price is known for {types}; budgets use the highest known price for the size.", types=types)
    # print one line for all successive nodes with the same name and zone
    gaps_s = Counter[tuple[str, str]]()
    for node in view["nodes"]:
        gaps_s[node["node_id"], node["zone"]] += node["unwatched_s"]
    for (node_id, zone), gap_s in gaps_s.items():
        if gap_s:
            yield _(
                "{name} ({zone}) may have been READY for up to {gap} of unmonitored time; budgets include this time.",
                name=plain(node_id),
                zone=plain(zone),
                gap=duration_text(gap_s),
            )
    if view["as_of"] is None:
        yield _("The cloud did not respond: nodes that were READY when last seen count as still READY.")
    elif not all_answered:
        yield _("The list may be incomplete: some zones did not respond.")
