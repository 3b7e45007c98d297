"""SKUs of the Billing Catalog, read as prices per chip and hour."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from jupyter_tpu.money.sku_prices import checked_rows, prices_of

DAY = "2026-11-22"


def rate(units: object = "1", nanos: int = 0, currency: str = "USD") -> dict[str, Any]:
    return {"startUsageAmount": 0, "unitPrice": {"currencyCode": currency, "units": units, "nanos": nanos}}


def sku(description: str, *rates: dict[str, Any], unit: str = "h", regions: tuple[str, ...] = ("us-east5",)) -> Any:
    expression = {"usageUnit": unit, "tieredRates": list(rates or [rate("2", 700_000_000)])}
    return {
        "description": description,
        "serviceRegions": list(regions),
        "pricingInfo": [{"pricingExpression": expression}],
    }


@pytest.mark.parametrize(
    ("description", "generation", "mode", "usd"),
    [
        ("TpuV6e running in Columbus", "v6e", "on-demand", 2.7),
        ("TpuV5p running in Americas", "v5p", "on-demand", 2.7),
        ("TpuV6e attached to Spot Preemptible VMs running in Columbus", "v6e", "spot", 2.7),
        ("DWS Defined Duration V6e running in Columbus", "v6e", "flex-start", 2.7),
        ("TPU-v2 Accelerator USA", "v2", "on-demand", 0.675),
        ("Preemptible TPU-v3 Pod Accelerator Europe", "v3", "spot", 0.675),
        ("TPU-v4 Pod Accelerator USA", "v4", "on-demand", 0.675),
    ],
)
def test_a_description_says_what_is_priced_and_in_which_unit(
    description: str, generation: str, mode: str, usd: float
) -> None:
    (row,) = prices_of([sku(description)], DAY).rows

    assert (row["generation"], row["mode"], row["region"]) == (generation, mode, "us-east5")
    assert row["usd_per_chip_hour"] == pytest.approx(usd)
    assert (row["as_of"], row["source"]) == (DAY, "Cloud Billing Catalog")


@pytest.mark.parametrize(
    "description",
    [
        "Capacity Optimized TpuV6e running in Columbus",
        "Reserved V6e TPU in Columbus in Calendar Mode",
        "Commitment v1: TpuV6e running in Columbus for 1 Year",
        "N2 Instance Core running in Columbus",
        "",
    ],
)
def test_what_is_no_node_is_no_price(description: str) -> None:
    reading = prices_of([sku(description), {}, None, [], {"description": 7}], DAY)

    assert (reading.rows, reading.skipped) == ((), ())


@pytest.mark.parametrize(
    ("priced", "reason"),
    [
        (sku("TpuV6e running in X", rate(currency="EUR")), "its price is in EUR, not in USD"),
        (sku("TpuV6e running in X", rate(), rate(currency="EUR")), "its price is in EUR, USD, not in USD"),
        (sku("TpuV6e running in X", unit="GiBy.mo"), "its price is per 'GiBy.mo', not per hour"),
        (sku("TpuV6e running in X", rate("0")), "0 USD per hour is not a plausible price"),
        (sku("TpuV6e running in X", rate("-1")), "-1 USD per hour is not a plausible price"),
        (sku("TpuV6e running in X", rate("99999")), "99999 USD per hour is not a plausible price"),
        (sku("TpuV6e running in X", rate("many")), "its price cannot be read"),
        ({"description": "TpuV6e running in X", "pricingInfo": []}, "its price cannot be read"),
        ({"description": "TpuV6e running in X", "pricingInfo": [{"pricingExpression": 3}]}, "its price cannot be read"),
    ],
)
def test_a_price_that_cannot_be_used_is_passed_over_with_a_reason(priced: Any, reason: str) -> None:
    reading = prices_of([priced, sku("TpuV5e running in X")], DAY)

    assert [row["generation"] for row in reading.rows] == ["v5e"]
    (told,) = reading.skipped
    assert told.startswith("TpuV6e running in X: ")
    assert reason in told


def test_of_several_rates_and_several_skus_the_dearest_holds() -> None:
    tiers = sku("TpuV6e running in X", rate("0"), rate("3"), rate("2"))
    cheaper = sku("TpuV6e running in Y", rate("1"))

    for order in ([tiers, cheaper], [cheaper, tiers]):
        (row,) = prices_of(order, DAY).rows
        assert row["usd_per_chip_hour"] == 3.0


def test_the_newest_pricing_holds_in_each_of_the_regions() -> None:
    priced = sku("TpuV6e running in Americas", rate("1"), regions=("us-east1", "us-east5"))
    newer = copy.deepcopy(priced["pricingInfo"][0])
    newer["pricingExpression"]["tieredRates"] = [rate("4")]
    priced["pricingInfo"].append(newer)

    rows = prices_of([priced], DAY).rows

    assert [(row["region"], row["usd_per_chip_hour"]) for row in rows] == [("us-east1", 4.0), ("us-east5", 4.0)]


def test_rows_that_were_kept_are_checked() -> None:
    rows = list(prices_of([sku("TpuV6e running in X"), sku("TPU-v2 Accelerator USA")], DAY).rows)
    assert checked_rows(rows) == tuple(rows)

    for wrong in ({"usd_per_chip_hour": 0.0}, {"usd_per_chip_hour": "1"}, {"region": None}, {"variant": 3}):
        with pytest.raises(ValueError, match="not a list of prices"):
            checked_rows([{**rows[0], **wrong}])
    for wrong_rows in (None, {}, [[]], "rows"):
        with pytest.raises(ValueError, match="not a list of prices"):
            checked_rows(wrong_rows)
