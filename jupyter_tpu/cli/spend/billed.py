"""`cost --billed`: show Google's charges, from Cloud Billing's export to BigQuery."""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import TYPE_CHECKING, Any

from jupyter_tpu.cli.node_texts import EMULATED
from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.terminal import echo, echo_json, echo_table, note, plain
from jupyter_tpu.cloud.services.billing_export import read_billed
from jupyter_tpu.errors import Text
from jupyter_tpu.i18n import _
from jupyter_tpu.money.billed import EXPORT_VARIABLE, ExportTable

if TYPE_CHECKING:
    from jupyter_tpu.cloud.settings import CloudSettings

_HEADER = ("DAY", "SERVICE", "SKU", "COST", "CREDITS")
_TIMES = (("month", Text("this month")), ("last_30_days", Text("last 30 days")))


def run_billed(options: argparse.Namespace) -> int:
    """Print Google's charges by day, service and SKU."""
    table = ExportTable.parse(options.billing_export or os.environ.get(EXPORT_VARIABLE, ""))
    settings = cloud_settings(options)
    view = asyncio.run(_read(settings, table))
    if options.json:
        echo_json({**view, "emulated": settings.is_emulated})
        return 0
    _show(view)
    if settings.is_emulated:
        note(EMULATED)
    return 0


async def _read(settings: CloudSettings, table: ExportTable) -> dict[str, Any]:
    from jupyter_tpu.fleet.assembly import open_cloud

    async with open_cloud(settings) as cloud:
        return await read_billed(cloud.settings, table)


def _show(view: dict[str, Any]) -> None:
    # the currency of the billing account, not always dollars
    currency = view["currency"]
    echo_table(_HEADER, ([*map(row.get, ("day", "service", "sku")), *_amounts(row)] for row in view["days"]))
    echo()
    for field, when in _TIMES:
        spent = view[field]
        to_pay = _("{net} {currency} to pay", net=_amount(spent["net"]), currency=currency)
        echo(
            _(
                "{when} (from {since}): cost {cost}, credits {credits}, {to_pay}",
                when=_(when),
                since=spent["since"],
                cost=_amount(spent["cost"]),
                credits=_amount(spent["credits"]),
                to_pay=to_pay,
            )
        )
        for credit in spent["by_credit"]:
            echo(f"  {plain(credit['name'] or credit['type'])} ({plain(credit['type'])}): {_amount(credit['amount'])}")
    note(
        _(
            "Exported until {date}, for the whole project {project}. {note}",
            date=plain(view["exported_until"]),
            project=plain(view["project"]),
            note=_(view["note"]),
        )
    )


def _amounts(row: dict[str, Any]) -> tuple[str, str]:
    return _amount(row["cost"]), _amount(row["credits"])


def _amount(amount: float) -> str:
    """Format an amount as ``12.50``, with four decimals below 0.10 so that it isn't rounded to 0."""
    return f"{amount:,.2f}" if abs(amount) >= 0.1 or not amount else f"{amount:.4f}"
