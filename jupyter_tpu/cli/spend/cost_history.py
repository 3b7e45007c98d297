"""`cost --by`: what was spent in each hour or day."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from jupyter_tpu.cli.node_texts import dollars_text
from jupyter_tpu.cli.terminal import note, plain, say, say_table
from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import BadInput
from jupyter_tpu.fleet.spend.spend_ledger import utc_offset_s
from jupyter_tpu.money.budgets import moment_text
from jupyter_tpu.money.spend_history import DEFAULT_SLOTS, history_view
from jupyter_tpu.money.spending import Account

_HEADER = ("FROM", "READY FOR", "COST")


def check_history_options(options: argparse.Namespace) -> None:
    """Raise BadInput if the options contradict each other."""
    if options.last is not None and not options.by:
        raise BadInput("--last needs --by.", hint="Add --by day.")
    if options.by and options.billed:
        raise BadInput("--by and --billed can't be used together.", hint="--billed always shows days.")


def history_of(options: argparse.Namespace, account: Account) -> dict[str, Any]:
    """Return the history that the options ask for; raises BadInput for a bad ``--last``."""
    last = DEFAULT_SLOTS[options.by] if options.last is None else options.last
    return history_view(account, options.by, last, utc_offset_s)


def say_history(view: dict[str, Any]) -> None:
    """Print a line for each hour or day in which a node was READY, and the sum."""
    # empty hours would hide the others
    used = [slot for slot in view["slots"] if slot["ready_s"] or slot["unwatched_s"]]
    if used:
        say_table(_HEADER, [_row(slot, view["by"]) for slot in used])
        say()
    spent = view["sum"]
    ready = duration_text(spent["ready_s"])
    say(f"last {len(view['slots'])} {view['by']}s: {_spent_text(spent)} for {ready} of READY nodes")
    for text in _doubts(view):
        note(text)


def _row(slot: dict[str, Any], by: str) -> tuple[str, ...]:
    starts_at = slot["starts_at"]
    begins = slot["day"] if by == "day" else moment_text(starts_at, utc_offset_s(starts_at))
    return (begins, duration_text(slot["ready_s"]), _spent_text(slot))


def _spent_text(spent: dict[str, Any]) -> str:
    known = dollars_text(spent["known_usd"])
    text = known if spent["usd"] is not None else f"at least {known}" if spent["known_usd"] else "price unknown"
    return f"{text} (up to {dollars_text(spent['up_to_usd'])})" if spent["unwatched_s"] else text


def _doubts(view: dict[str, Any]) -> Iterable[str]:
    if view["unpriced"]:
        yield f"No list price is known for {plain(', '.join(view['unpriced']))}: their cost is not included."
    if view["sum"]["unwatched_s"]:
        yield '"Up to" includes unmonitored time in which a node may have been READY.'
