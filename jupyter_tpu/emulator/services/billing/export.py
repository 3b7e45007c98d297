"""The billing export: the ledger's charges per day and SKU, with the credits that reduce them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.records import Span
from jupyter_tpu.emulator.services.billing.skus import sku_of
from jupyter_tpu.emulator.store.ledger import NANOS, Bill, charge

DAY_S = 86_400
CREDIT_TYPE, CREDIT_NAME = "PROMOTION", "Emulated promotional credit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One row of the billing export. Amounts are in nano-dollars; `credit` is negative or 0."""

    day: str
    service: str
    sku: str
    cost: int
    credit: int = 0


@assumed(
    "export-rows",
    "The export has one row for each READY node and UTC day, without the delay of the real export. It has no "
    "rows for nodes with an unknown price or for services other than TPUs.",
)
@assumed("export-credit", "Promotional credit pays for the oldest costs first, in full, until the credit is used up.")
def exported(bills: Iterable[Bill], now: float, credit_usd: int) -> list[Exported]:
    """Return all rows until now, sorted by day."""
    left = credit_usd * NANOS
    rows = []
    for row in sorted((row for bill in bills for span in bill.spans for row in _rows(span, now)), key=_order):
        used = min(left, row.cost)
        left -= used
        rows.append(replace(row, credit=-used))
    return rows


def _order(row: Exported) -> tuple[str, str, str]:
    return row.day, row.service, row.sku


def _rows(span: Span, now: float) -> Iterator[Exported]:
    """Yield one row per day of a usage interval: the charge up to the day's end minus the charge up to its start.

    Each charge is rounded down, but the rows still add up to the ledger's charge.
    """
    sku = sku_of(span.accelerator_type, span.zone, span.mode)
    end = now if span.ended is None else span.ended
    moment, before = span.started, 0
    while sku is not None and moment < end:
        midnight = (moment // DAY_S + 1) * DAY_S
        # compute each charge from the start of the span, so that only the sum is rounded
        charged = charge(replace(span, ended=min(midnight, end)), now) or 0
        day = datetime.fromtimestamp(moment, UTC).date().isoformat()
        service = str(sku["category"]["serviceDisplayName"])
        if charged > before:
            yield Exported(day=day, service=service, sku=str(sku["description"]), cost=charged - before)
        moment, before = midnight, charged
