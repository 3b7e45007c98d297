"""`cost --by`: show the spending in each hour or day."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from jupyter_tpu.cli.node_texts import dollars_text
from jupyter_tpu.cli.terminal import echo, echo_table, note, plain
from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.fleet.spend.spend_ledger import utc_offset_s
from jupyter_tpu.i18n import _
from jupyter_tpu.money.budgets import moment_text
from jupyter_tpu.money.spend_history import DEFAULT_SLOTS, history_view
from jupyter_tpu.money.spending import Account

_HEADER = ("FROM", "READY FOR", "COST")


def check_history_options(options: argparse.Namespace) -> None:
    """Raise BadInput if the options contradict each other."""
    if options.last is not None and not options.by:
        raise BadInput("--last requires --by.", hint="Add --by day.")
    if options.by and options.billed:
        raise BadInput("--by and --billed can't be used together.", hint="Omit --by; --billed always shows days.")


def history_of(options: argparse.Namespace, account: Account) -> dict[str, Any]:
    """Return the history selected by the options; raise BadInput for an invalid ``--last``."""
    last = DEFAULT_SLOTS[options.by] if options.last is None else options.last
    return history_view(account, options.by, last, utc_offset_s)


def echo_history(view: dict[str, Any]) -> None:
    """Print a line for each hour or day in which a node was READY, and the total."""
    # omit empty hours, because they would hide the others
    used = [slot for slot in view["slots"] if slot["ready_s"] or slot["unwatched_s"]]
    if used:
        echo_table(_HEADER, [_row(slot, view["by"]) for slot in used])
        echo()
    spent = view["sum"]
    template = (
        Text("last {count} days: {cost} for {duration} of READY nodes")
        if view["by"] == "day"
        else Text("last {count} hours: {cost} for {duration} of READY nodes")
    )
    ready = duration_text(spent["ready_s"])
    echo(_(template, count=len(view["slots"]), cost=_spent_text(spent), duration=ready))
    for text in _doubts(view):
        note(text)


def _row(slot: dict[str, Any], by: str) -> tuple[str, ...]:
    starts_at = slot["starts_at"]
    begins = slot["day"] if by == "day" else moment_text(starts_at, utc_offset_s(starts_at))
    return (begins, duration_text(slot["ready_s"]), _spent_text(slot))


def _spent_text(spent: dict[str, Any]) -> str:
    known = dollars_text(spent["known_usd"])
    if spent["usd"] is not None:
        text = known
    else:
        text = _("at least {cost}", cost=known) if spent["known_usd"] else _("price unknown")
    if not spent["unwatched_s"]:
        return text
    return _("{cost} (up to {most})", cost=text, most=dollars_text(spent["up_to_usd"]))


def _doubts(view: dict[str, Any]) -> Iterable[str]:
    if view["unpriced"]:
        yield _(
            "No list price is known for {types}: their cost is not included.",
            types=plain(", ".join(view["unpriced"])),
        )
    if view["sum"]["unwatched_s"]:
        yield _('"Up to" includes unmonitored time in which a node may have been READY.')
