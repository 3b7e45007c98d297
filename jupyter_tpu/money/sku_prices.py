"""Parse the SKUs in Google's Billing Catalog into TPU prices in US dollars per chip-hour.

Rows have the same structure as in ``catalogue.json``. The module is pure: it converts SKUs to rows. A SKU that cannot
be read is skipped with a reason, because an unknown price must not become 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]

SOURCE = "Cloud Billing Catalog"

CHIPS_PER_DEVICE = 4
"""Chips per device: v2, v3 and v4 are priced per device of 8 TensorCores (v4: 4 chips with 2 each), others per chip."""

_DEAREST = 1000.0  # USD per hour; a higher price is a parsing error, because the catalogue's highest is 12 per chip
# Each pattern matches a whole description, because "Capacity Optimized TpuV6e…", "Reserved V6e TPU in…" and "Commitment
# v1:…" are other products.
_MODES = (
    ("spot", re.compile(r"tpu ?(v\d+[a-z]*) attached to spot preemptible vms running in .+", re.IGNORECASE)),
    ("on-demand", re.compile(r"tpu ?(v\d+[a-z]*) running in .+", re.IGNORECASE)),
    ("flex-start", re.compile(r"dws defined duration (?:tpu ?)?(v\d+[a-z]*) (?:tpu )?running in .+", re.IGNORECASE)),
)
_LEGACY = re.compile(r"(preemptible )?tpu-(v[234]) (pod )?accelerator\b.*", re.IGNORECASE)
_FIELDS = {"generation": str, "region": str, "mode": str, "as_of": str, "source": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class SkuPrices:
    """The prices that were read from TPU SKUs, and the reasons why other TPU SKUs were skipped."""

    rows: tuple[Row, ...]
    skipped: tuple[str, ...] = ()


class _Unusable(Exception):
    """A TPU SKU has no usable price; the message explains why."""


def prices_of(skus: Iterable[object], as_of: str) -> SkuPrices:
    """Return the prices in the SKUs; `as_of` is the day on which the SKUs were fetched.

    If a resource has two prices, the higher price is returned.
    """
    found: dict[tuple[str, ...], Row] = {}
    passed_over: list[str] = []
    for sku in skus:
        try:
            for row in _rows_of(sku, as_of):
                key = (row["generation"], row["region"], row["mode"], row.get("variant", ""))
                if key not in found or found[key]["usd_per_chip_hour"] < row["usd_per_chip_hour"]:
                    found[key] = row
        except _Unusable as error:
            passed_over.append(str(error))
    return SkuPrices(rows=tuple(found[key] for key in sorted(found)), skipped=tuple(passed_over))


def _rows_of(sku: object, as_of: str) -> list[Row]:
    description = sku.get("description") if isinstance(sku, Mapping) else None
    found = _kind_of(description) if isinstance(description, str) else None
    if found is None or not isinstance(sku, Mapping):  # the SKU is not for TPUs
        return []
    kind, chips = found
    try:
        usd = _usd_per_hour(sku["pricingInfo"][-1]["pricingExpression"])
        regions = [region for region in sku["serviceRegions"] if isinstance(region, str)]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise _Unusable(f"{description}: its price cannot be read ({error!r:.100})") from error
    except _Unusable as error:
        raise _Unusable(f"{description}: {error}") from error
    priced = {**kind, "usd_per_chip_hour": usd / chips, "as_of": as_of, "source": SOURCE}
    return [{**priced, "region": region} for region in regions]


def _kind_of(description: str) -> tuple[Row, int] | None:
    """Parse a SKU's description; return the generation, mode and variant, and the number of chips per unit of price.

    The variant is missing if VMs and slices have the same price. Returns None if the description is not for a TPU node.
    """
    for mode, form in _MODES:
        if match := form.fullmatch(description):
            return {"generation": match[1].lower(), "mode": mode}, 1
    match = _LEGACY.fullmatch(description)
    if match is None:
        return None
    generation = match[2].lower()
    variant = {} if generation == "v4" else {"variant": f"{generation} {'pod' if match[3] else 'device'}"}
    return {"generation": generation, "mode": "spot" if match[1] else "on-demand", **variant}, CHIPS_PER_DEVICE


def _usd_per_hour(expression: Mapping[str, Any]) -> float:
    """Return the highest rate, because the catalogue may have a free tier or lower rates for high usage."""
    if expression["usageUnit"] != "h":
        raise _Unusable(f"its price is per {expression['usageUnit']!r:.40}, not per hour")
    prices = [tier["unitPrice"] for tier in expression["tieredRates"]]
    currencies = {str(price["currencyCode"]) for price in prices}
    if currencies != {"USD"}:
        raise _Unusable(f"its price is in {', '.join(sorted(currencies))[:40] or 'no currency'}, not in USD")
    usd = max(int(price.get("units", 0)) + int(price.get("nanos", 0)) / 1e9 for price in prices)
    if not 0 < usd < _DEAREST:
        raise _Unusable(f"{usd:g} USD per hour is not a plausible price")
    return usd


def checked_rows(rows: object) -> tuple[Row, ...]:
    """Validate rows that were stored as JSON.

    Raises:
        ValueError: the rows don't have the structure that `prices_of` returns.
    """
    if not isinstance(rows, list) or not all(map(_is_row, rows)):
        raise ValueError("not a list of prices")
    return tuple(rows)


def _is_row(row: object) -> bool:
    if not isinstance(row, dict) or not all(isinstance(row.get(name), kind) for name, kind in _FIELDS.items()):
        return False
    usd = row.get("usd_per_chip_hour")
    return isinstance(usd, float) and 0 < usd < _DEAREST and isinstance(row.get("variant", ""), str)
