"""What Google's Billing Catalog says of TPU chips: its SKUs, read as prices in US dollars per chip and hour.

A row has the shape of those in ``catalogue.json``. Pure: SKUs in, rows out; what cannot be read is passed over, with a
reason, for an unknown price is not a free one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]

SOURCE = "Cloud Billing Catalog"

CHIPS_PER_DEVICE = 4
"""SKUs of v2, v3 and v4 are priced per device of 8 (v4: 4 × 2) TensorCores, all others per chip."""

_DEAREST = 1000.0
_MODES = (
    ("spot", re.compile(r"tpu ?(v\d+[a-z]*) attached to spot preemptible vms running in .+", re.IGNORECASE)),
    ("on-demand", re.compile(r"tpu ?(v\d+[a-z]*) running in .+", re.IGNORECASE)),
    ("flex-start", re.compile(r"dws defined duration (?:tpu ?)?(v\d+[a-z]*) (?:tpu )?running in .+", re.IGNORECASE)),
)
_LEGACY = re.compile(r"(preemptible )?tpu-(v[234]) (pod )?accelerator\b.*", re.IGNORECASE)
_FIELDS = {"generation": str, "region": str, "mode": str, "as_of": str, "source": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Prices, and why others of TPUs were passed over."""

    rows: tuple[Row, ...]
    passed_over: tuple[str, ...] = ()


class _Unusable(Exception):
    """The price of TPUs that a SKU has cannot be used; the message says why."""


def prices_of(skus: Iterable[object], as_of: str) -> Reading:
    """The prices in SKUs that were read on the day `as_of`; of two for the same, the dearer."""
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
    return Reading(rows=tuple(found[key] for key in sorted(found)), passed_over=tuple(passed_over))


def _rows_of(sku: object, as_of: str) -> list[Row]:
    description = sku.get("description") if isinstance(sku, Mapping) else None
    found = _kind_of(description) if isinstance(description, str) else None
    if found is None or not isinstance(sku, Mapping):  # of something else
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
    """Generation and mode (with variant, where VM and slice differ), and how many chips are priced; None: no node."""
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
    """The dearest rate: the catalogue may have a free tier, or cheaper ones for much use."""
    if expression["usageUnit"] != "h":
        raise _Unusable(f"its price is per {expression['usageUnit']!r:.40}, not per hour")
    prices = [tier["unitPrice"] for tier in expression["tieredRates"]]
    currencies = {str(price["currencyCode"]) for price in prices}
    if currencies != {"USD"}:
        raise _Unusable(f"its price is in {', '.join(sorted(currencies))[:40] or 'no currency'}, not in USD")
    usd = max(int(price.get("units", 0)) + int(price.get("nanos", 0)) / 1e9 for price in prices)
    if not 0 < usd < _DEAREST:
        raise _Unusable(f"{usd:g} USD per hour can be no price")
    return usd


def checked_rows(rows: object) -> tuple[Row, ...]:
    """Rows that were kept as JSON.

    Raises:
        ValueError: they are not what `prices_of` gave.
    """
    if not isinstance(rows, list) or not all(map(_is_row, rows)):
        raise ValueError("these are no prices")
    return tuple(rows)


def _is_row(row: object) -> bool:
    if not isinstance(row, dict) or not all(isinstance(row.get(name), kind) for name, kind in _FIELDS.items()):
        return False
    usd = row.get("usd_per_chip_hour")
    return isinstance(usd, float) and 0 < usd < _DEAREST and isinstance(row.get("variant", ""), str)
