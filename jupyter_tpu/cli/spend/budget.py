"""The command `budget`: limit the cost or hours of READY nodes per day, week, month or in total."""

from __future__ import annotations

import argparse
import asyncio
import re
import time
from collections.abc import Sequence
from shlex import quote
from typing import Any

from jupyter_tpu.accelerators import find_accelerator
from jupyter_tpu.cli.node_texts import dollars_text
from jupyter_tpu.cli.spend.ledger_access import ledger_of_cloud, observe_spend, warn_if_project_unreadable
from jupyter_tpu.cli.terminal import echo, echo_json, echo_table, note, plain
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.i18n import _
from jupyter_tpu.lifecycle.intent_texts import command
from jupyter_tpu.money.budgets import moment_text
from jupyter_tpu.money.days import OffsetAt
from jupyter_tpu.money.spans import Span
from jupyter_tpu.money.spending import Account, budgets_view

_HEADER = ("BUDGET", "LIMIT", "USED", "RUNS OUT", "RESETS", "AT THE CAP")
_PERIODS = {"day": Text("day"), "week": Text("week"), "month": Text("month")}
_SET_OPTIONS = ("usd", "hours", "per", "resets_on", "resets_at", "stop_all", "warn_only")
_UNCHANGED = "The budgets are unchanged."
_UP_TO = Text('"Up to" includes unmonitored time in which a node may have been READY. Budgets count all of that time.')
_AT_THE_CAP = {
    "stop": Text("stops billed nodes, and deletes those that cannot be stopped"),
    "stop-all": Text("stops all nodes, and deletes those that cannot be stopped"),
    "warn": Text("only warns"),
}


def run_budget(options: argparse.Namespace) -> int:
    """List, set, remove or confirm budgets."""
    action = _ACTIONS[options.action]
    _check_arguments(options)
    return action(options)


def _check_arguments(options: argparse.Namespace) -> None:
    # other actions would silently ignore a limit
    if options.action != "set" and any(getattr(options, name) not in (None, "", False) for name in _SET_OPTIONS):
        raise BadInput(
            Text("`budget {action}` does not take a limit.", action=options.action), exists=_UNCHANGED, hint=_USAGE
        )
    if bool(options.name) == (options.action in ("list", "confirm")):
        raise BadInput(
            Text("`budget {action}` does not take a name.", action=options.action)
            if options.name
            else Text("`budget {action}` requires a name.", action=options.action),
            hint=_USAGE,
        )
    if options.stray:
        stray = plain(" ".join(options.stray))
        raise _incomplete(
            options, Text("`budget {action}` does not take {stray}.", action=options.action, stray=repr(stray))
        )
    has_limit = options.usd is not None or options.hours is not None
    if options.action == "set" and not (has_limit and options.per):
        raise _incomplete(options, _MISSING[has_limit, bool(options.per)])


_USAGE = Text(
    "Use `jupyter tpu budget`, `jupyter tpu budget set NAME --usd N --per week` or `jupyter tpu budget remove NAME`."
)


_MISSING = {
    (False, False): Text("A budget requires a limit and a period."),
    (False, True): Text("A budget requires a limit: --usd or --hours."),
    (True, False): Text("A budget requires a period: --per day, week, month or total."),
}
"""The error for an incomplete budget, by whether a limit and a period are given."""


def _incomplete(options: argparse.Namespace, message: Text) -> BadInput:
    """Return the error for an incomplete command, with an example that repeats the user's values."""
    if options.action != "set":
        return BadInput(message, exists=_UNCHANGED, hint=_USAGE)
    usd = next(filter(_is_amount, options.stray), "20") if options.usd is None else f"{options.usd:g}"
    limit = f"--usd {usd}" if options.hours is None else f"--hours {options.hours:g}"
    example = f"jupyter tpu budget set {quote(plain(options.name))} {limit} --per {options.per or 'week'}"
    return BadInput(message, exists=_UNCHANGED, hint=Text("For example: {command}", command=f"`{example}`"))


def _is_amount(text: str) -> bool:
    return re.fullmatch(r"\d{1,9}(\.\d{1,2})?", text) is not None


def _list(options: argparse.Namespace) -> int:
    account = asyncio.run(observe_spend(options)).account
    views = budgets_view(account)
    if options.json:
        echo_json({"budgets": views})
    elif views:
        echo_budgets(views, account)
    else:
        note(_("There are no budgets. To set one, run `jupyter tpu budget set NAME --usd N --per week`."))
    return 0


def echo_budgets(views: Sequence[dict[str, Any]], account: Account) -> None:
    """Print a table of budgets, the errors of unreadable budgets, and the READY nodes whose budget is used up."""
    echo_table(_HEADER, (_row(view, account.offset_at) for view in views))
    for view in views:
        if view["error"]:
            note(plain(_(view["error"])))
        # a budget that only warns leaves nodes running on purpose
        elif view["level"] == "100" and view["action"] != "warn":
            _show_still_ready(view, account)
    if any(view["unwatched"] for view in views):
        note(_UP_TO)


def _show_still_ready(view: dict[str, Any], account: Account) -> None:
    """Print commands for stopping nodes that are still READY, because `budget` itself never stops nodes."""
    spares_granted = view["unit"] == "usd" and view["action"] == "stop"
    counted = (span for span in account.spans if span.is_open and not (spares_granted and span.usd_per_hour == 0))
    commands = [command(_end_of(span), span.name) for span in counted]
    if commands:
        still = _("READY and billed") if spares_granted else "READY"
        name = plain(view["name"])
        note(
            _(
                "The budget {name} is used up, and these nodes are still {still}. A running Jupyter server stops "
                "them. If none is running, stop them now:",
                name=name,
                still=still,
            )
        )
    for each in commands:
        note(f"  {each.strip('`')}")


def _end_of(span: Span) -> str:
    """Return the command to stop the node, or to delete it if it is a spot node or has several VMs."""
    kind = find_accelerator(span.accelerator_type)
    return "delete" if span.spot or (kind and kind.workers > 1) else "stop"


def _row(view: dict[str, Any], offset_at: OffsetAt) -> tuple[str, ...]:
    if view["error"]:
        return (view["name"], _("cannot be read"), _("unknown"), "", "", _("nothing can be created"))
    per = _("in total") if view["period"] == "total" else _("per {period}", period=_(_PERIODS[view["period"]]))
    amount = _amount(view, view["used"])
    used = f"{_('up to {amount}', amount=amount) if view['unwatched'] else amount} ({_share_text(view['fraction'])})"
    runs_out = _("used up") if view["level"] == "100" else _moment(view["runs_out_at"], offset_at)
    renewed = _moment(view["window_end"], offset_at)
    limit = f"{_amount(view, view['amount'])} {per}"
    # a grant covers dollars, not hours
    action = "stop-all" if view["action"] == "stop" and view["unit"] == "hours" else view["action"]
    return (view["name"], limit, used, runs_out, renewed, _(_AT_THE_CAP[action]))


def _share_text(fraction: float) -> str:
    """Format the used share of a budget as ``96%`` (rounded down) or, from twice the budget on, as ``697 ×``."""
    if fraction < 2:
        return f"{int(100 * fraction)}%"
    return f"{fraction:.1f} ×" if fraction < 10 else f"{fraction:,.0f} ×"


def _amount(view: dict[str, Any], amount: float) -> str:
    return dollars_text(amount) if view["unit"] == "usd" else f"{amount:.2f} h"


def _moment(at: float | None, offset_at: OffsetAt) -> str:
    return "" if at is None else moment_text(at, offset_at(at))


def _set(options: argparse.Namespace) -> int:
    view, account = asyncio.run(_written(options))
    if options.json:
        echo_json(view)
    else:
        echo_budgets([view], account)
    return 0


async def _written(options: argparse.Namespace) -> tuple[dict[str, Any], Account]:
    async with ledger_of_cloud(options) as (cloud, ledger):
        ledger.set_budget(options.name, _wanted(options), now=time.time())
        # save the budget even if the cloud doesn't respond
        await warn_if_project_unreadable(cloud)
        account = ledger.account(cloud.clock.now())
    (view,) = [view for view in budgets_view(account) if view["name"] == options.name]
    return view, account


def _wanted(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "amount": options.usd if options.hours is None else options.hours,
        "unit": "usd" if options.hours is None else "hours",
        "period": options.per,
        "resets_on": options.resets_on or None,
        "resets_at": options.resets_at or None,
        "action": "warn" if options.warn_only else "stop-all" if options.stop_all else "stop",
    }


def _remove(options: argparse.Namespace) -> int:
    asyncio.run(_removed(options))
    if options.json:
        echo_json({"removed": options.name})
    else:
        echo(_("Removed budget {name}.", name=plain(options.name)))
    return 0


async def _removed(options: argparse.Namespace) -> None:
    async with ledger_of_cloud(options) as (_, ledger):
        # use this machine's clock, because nothing depends on the exact time of a removal
        ledger.remove_budget(options.name, now=time.time())


def _confirm(options: argparse.Namespace) -> int:
    """Confirm the remaining budgets after damage to the journal."""
    was_needed = asyncio.run(_confirmed(options))
    if options.json:
        echo_json({"confirmed": was_needed})
    else:
        echo(_("The budgets are confirmed.") if was_needed else _("There are no budgets to confirm."))
    return 0


async def _confirmed(options: argparse.Namespace) -> bool:
    async with ledger_of_cloud(options) as (_, ledger):
        return ledger.confirm_budgets(now=time.time())


_ACTIONS = {"list": _list, "set": _set, "remove": _remove, "confirm": _confirm}
