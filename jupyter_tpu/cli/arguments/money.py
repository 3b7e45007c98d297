"""The arguments of the commands for costs and budgets."""

from __future__ import annotations

import argparse
from dataclasses import replace

from jupyter_tpu.commands import shared
from jupyter_tpu.commands.arguments import NO_CONFIRMATION, REMOTE, YES, action
from jupyter_tpu.commands.grammar import Command, argument, flag
from jupyter_tpu.errors import Text
from jupyter_tpu.money.billed import EXPORT_VARIABLE
from jupyter_tpu.money.budgets import PERIODS, WEEKDAYS
from jupyter_tpu.money.spend_history import DEFAULT_SLOTS, MAX_SLOTS

COMMANDS = (
    replace(
        shared.COST,
        arguments=(
            *REMOTE,
            flag("--refresh-prices", help="read today's prices from the Billing Catalog first"),
            argument("--by", choices=tuple(DEFAULT_SLOTS), help="show recent spending per hour or per day"),
            argument(
                "--last",
                type=int,
                metavar="N",
                help=Text(
                    "with --by: how many hours (default: {hours}, at most {most_hours}) or days "
                    "(default: {days}, at most {most_days})",
                    hours=DEFAULT_SLOTS["hour"],
                    most_hours=MAX_SLOTS["hour"],
                    days=DEFAULT_SLOTS["day"],
                    most_days=MAX_SLOTS["day"],
                ),
            ),
            flag(
                "--billed",
                help="show what Google has billed, by day, service and SKU, from the billing export to BigQuery",
            ),
            argument(
                "--billing-export",
                metavar="PROJECT.DATASET.TABLE",
                help=Text(
                    "table of the standard billing export (default: ${variable}); BigQuery may charge a few "
                    "cents for each query",
                    variable=EXPORT_VARIABLE,
                ),
            ),
        ),
    ),
    Command(
        name="budget",
        help="list, set or remove budgets; at the cap, billed nodes are stopped, or deleted if they cannot be stopped; "
        "nodes under a grant keep running",
        arguments=(
            action("list", "set", "remove", "confirm"),
            argument("name", nargs="?", metavar="NAME", help="your name for the budget"),
            # only to suggest the right option for `budget set NAME 20`
            argument("stray", nargs="*", help=argparse.SUPPRESS),
            (
                argument("--usd", type=float, metavar="N", help="limit in US dollars, at list price"),
                argument(
                    "--hours", type=float, metavar="N", help="limit in node-hours: READY time of all nodes together"
                ),
            ),
            argument("--per", choices=PERIODS, help="period for which the budget applies"),
            argument("--resets-on", choices=WEEKDAYS, help="weekday on which the weekly budget resets"),
            argument("--resets-at", metavar="HH:MM", help="time of day at which the budget resets (default: 00:00)"),
            (
                flag(
                    "--stop-all",
                    help="at the cap, stop all READY nodes (default: nodes under a grant keep running, unless "
                    "the budget is in hours)",
                ),
                flag(
                    "--warn-only",
                    help="at the cap, only warn (default: stop the nodes; a node that cannot be stopped, such as a "
                    "spot node, a node of several VMs, or one that the cloud refuses to stop for 5 min, is deleted "
                    "with its disk)",
                ),
            ),
            NO_CONFIRMATION,
            *REMOTE,
        ),
    ),
    replace(
        shared.GRANT,
        arguments=(
            action("list", "add", "remove"),
            argument("name", nargs="?", metavar="NAME", help="your name for the grant"),
            (
                argument("--from", dest="mail", metavar="FILE", help="file with the TRC email; - reads standard input"),
                argument(
                    "--row",
                    action="append",
                    default=[],
                    metavar="ROW",
                    help="chips granted, such as '32 spot v4 us-central2-b'; can be repeated",
                ),
                argument("--credit", type=float, metavar="USD", help="amount granted in US dollars, instead of chips"),
            ),
            argument("--starts-on", metavar="DATE", help="first day, such as 2026-11-01 (default: the email's date)"),
            argument(
                "--days",
                type=int,
                metavar="N",
                help="number of days for which the grant is valid (default: as in the email)",
            ),
            argument("--ends-on", metavar="DATE", help="last day, instead of --days"),
            flag("--skip-unread", help="save the grant even if some lines of the email cannot be read"),
            YES,
            *REMOTE,
        ),
    ),
    replace(
        shared.QUOTA,
        arguments=(
            argument("--zone", help="only this zone and its region (default: limits in use, and zones of your nodes)"),
            flag("--all", help="all zones, including limits of 0 and types that are not offered"),
            *REMOTE,
        ),
    ),
    Command(
        name="cleanup",
        help="list billable resources and quota in all zones, and delete what you name",
        arguments=(
            (
                argument(
                    "--delete", nargs="+", default=[], metavar="NAME", help="delete these nodes and queued resources"
                ),
                flag(
                    "--delete-leftovers",
                    help="delete PREEMPTED and TERMINATED nodes and FAILED and SUSPENDED queued resources; STOPPED "
                    "nodes are kept",
                ),
                # the option's former name
                flag("--delete-husks", dest="delete_leftovers", help=argparse.SUPPRESS),
            ),
            YES,
            *REMOTE,
        ),
    ),
    Command(
        name="audit",
        help="show actions that affected cost or access, and why, newest first",
        arguments=(
            argument("--limit", type=int, default=100, metavar="N", help="how many entries (default: 100)"),
            *REMOTE,
        ),
    ),
)
