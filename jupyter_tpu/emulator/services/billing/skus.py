"""SKUs of the Billing Catalog: the prices of ``catalogue.json``, with descriptions as in Google's catalogue."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.resources.behaviours import assumed, recorded

# IDs of Google's services; Compute Engine sells v5e and later (gpuhunt gcp.py)
COMPUTE_ENGINE, CLOUD_TPU = "6F81-5844-456A", "E000-3F24-B8AA"
_LEGACY = ("v2", "v3", "v4")
_CHIPS_PER_DEVICE = 4  # Cloud TPU prices are per device of 8 cores (behaviour `sku-legacy`)
_CITIES = {
    "us-south1": "Dallas",
    "us-east5": "Columbus",
    "us-west4": "Las Vegas",
    "asia-east1": "Taiwan",
    "asia-northeast1": "Tokyo",
    "asia-south2": "Delhi",
    "asia-southeast1": "Singapore",
    "europe-west1": "Belgium",
    "europe-west4": "Netherlands",
    "southamerica-east1": "Sao Paulo",
}
_CONTINENTS = {"us": "USA", "europe": "Europe", "asia": "Asia"}
_USAGE_TYPES = {"spot": "Preemptible", "cud-1y": "Commit1Yr", "cud-3y": "Commit3Yr"}
_FORMS = {
    "on-demand": "{tpu} running in {place}",
    "spot": "{tpu} attached to Spot Preemptible VMs running in {place}",
    "flex-start": "DWS Defined Duration {version} running in {place}",
    "capacity-optimized": "Capacity Optimized {tpu} running in {place}",
    "calendar-reserved": "Reserved {version} TPU in {place} in Calendar Mode",
    "cud-1y": "Commitment v1: {tpu} running in {place} for 1 Year",
    "cud-3y": "Commitment v1: {tpu} running in {place} for 3 Years",
}


def sku_of(accelerator_type: str, zone: str, mode: str) -> Mapping[str, Any] | None:
    """Return the SKU under which a node is charged, or None if the catalogue has no SKU for the node."""
    kind = accelerators.find_accelerator(accelerator_type)
    if kind is None or mode not in _FORMS:
        return None
    region = accelerators.region_of(zone)
    # v2 and v3 have separate prices for single devices and slices
    variant = f"{kind.generation} {'device' if kind.workers == 1 else 'pod'}"
    row = {"generation": kind.generation, "region": region, "mode": mode, "variant": variant}
    is_legacy = kind.generation in _LEGACY
    description = _legacy_description(row) if is_legacy else _description(row)
    skus = skus_of(CLOUD_TPU if is_legacy else COMPUTE_ENGINE)
    return next((sku for sku in skus if sku["description"] == description and region in sku["serviceRegions"]), None)


@functools.cache
def skus_of(service: str) -> tuple[Mapping[str, Any], ...]:
    """Return the TPU SKUs of the service with this id, each with its newest price."""
    newest: dict[str, Mapping[str, Any]] = {}
    prices = accelerators.catalogue()["prices"]
    # sort by date, so that the newest row of a SKU comes last, and then by price, so that the order is fixed
    for row in sorted(prices, key=lambda row: (str(row["as_of"]), row["usd_per_chip_hour"])):
        for sku in _skus_of_row(row):
            newest[f"{sku['description']} {sku['serviceRegions']}"] = sku
    found = [sku for sku in newest.values() if sku["name"].split("/")[1] == service]
    return tuple(sorted(found, key=lambda sku: str(sku["skuId"])))


def _skus_of_row(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    is_legacy = row["generation"] in _LEGACY
    regions = row["region"].split("|")
    description = _legacy_description(row) if is_legacy else _description(row)
    if description:
        yield _sku(row, CLOUD_TPU if is_legacy else COMPUTE_ENGINE, description, regions)


@recorded(
    "sku-descriptions",
    "TPU SKUs of Compute Engine are described as 'TpuV6e running in Columbus', '… attached to Spot Preemptible "
    "VMs running in …' (Preemptible), 'DWS Defined Duration V6e running in …' (OnDemand), 'Capacity Optimized "
    "…', 'Reserved V6e TPU in … in Calendar Mode', 'Commitment v1: …' and 'TPU7x running in Americas'; their "
    "price is per chip and hour.",
    source="live readings of the catalogue of 2026-06-14, 2026-08-07 and 2026-08-25 in public repositories",
)
@assumed(
    "sku-cities",
    "The cities in SKU names were observed for some regions only; several other regions share the location Americas.",
)
def _description(row: Mapping[str, Any]) -> str:
    version = "V" + str(row["generation"]).removeprefix("v").removeprefix("tpu")
    tpu = "TPU7x" if row["generation"] == "tpu7x" else f"Tpu{version}"
    place = _CITIES.get(row["region"], "Americas")
    return _FORMS[row["mode"]].format(tpu=tpu, version=version, place=place)


@recorded(
    "sku-legacy",
    "v2, v3 and v4 are SKUs of the Cloud TPU service, priced per device of 8 cores and named by continent, such"
    " as 'TPU-v2 Accelerator USA'; SKUs for slices contain Pod, and preemptible ones have the usage type "
    "OnDemand.",
    source="SkyPilot fetch_gcp.py; gpuhunt gcp.py; a public repository's listing",
)
@assumed(
    "sku-legacy-others",
    "Other SKU names of the Cloud TPU service follow the same pattern. The service lists no commitments.",
)
def _legacy_description(row: Mapping[str, Any]) -> str:
    # return an empty text, because the real service lists no such SKU (behaviour `sku-legacy-others`)
    if row["mode"] not in ("on-demand", "spot"):
        return ""
    is_pod = row["generation"] == "v4" or str(row.get("variant", "")).endswith("pod")
    words = ["Preemptible" if row["mode"] == "spot" else "", f"TPU-{row['generation']}", "Pod" if is_pod else ""]
    return " ".join([word for word in words if word] + ["Accelerator", _CONTINENTS[row["region"].split("-")[0]]])


def _sku(row: Mapping[str, Any], service: str, description: str, regions: list[str]) -> Mapping[str, Any]:
    is_legacy = service == CLOUD_TPU
    price = Decimal(str(row["usd_per_chip_hour"])) * (_CHIPS_PER_DEVICE if is_legacy else 1)
    # use the ID from the real service if it is known
    sku_id = row.get("sku") or _made_up_id(description, regions)
    usage_type = "OnDemand" if is_legacy else _USAGE_TYPES.get(row["mode"], "OnDemand")
    return {
        "name": f"services/{service}/skus/{sku_id}",
        "skuId": sku_id,
        "description": description,
        "category": {
            "serviceDisplayName": "Cloud TPU" if is_legacy else "Compute Engine",
            "resourceFamily": "Compute",
            "resourceGroup": "TPU",
            "usageType": usage_type,
        },
        "serviceRegions": regions,
        "pricingInfo": [_pricing(price, str(row["as_of"]))],
        "serviceProviderName": "Google",
        "geoTaxonomy": {"type": "REGIONAL" if len(regions) == 1 else "MULTI_REGIONAL", "regions": regions},
    }


def _pricing(price: Decimal, as_of: str) -> Mapping[str, Any]:
    units = int(price)
    return {
        "summary": "",
        "pricingExpression": {
            "usageUnit": "h",
            "displayQuantity": 1,
            "tieredRates": [
                {
                    "startUsageAmount": 0,
                    "unitPrice": {
                        "currencyCode": "USD",
                        "units": str(units),
                        # `price` is a Decimal, because with a float, the nanos could be off by one
                        "nanos": int((price - units) * 10**9),
                    },
                }
            ],
            "usageUnitDescription": "hour",
            "baseUnit": "s",
            "baseUnitDescription": "second",
            "baseUnitConversionFactor": 3600,
        },
        "currencyConversionRate": 1,
        # if a row has only a month or no date, use a plausible day
        "effectiveTime": f"{as_of[:10] if as_of[4:5] == '-' else '2025-01-01'}T00:00:00Z",
    }


@assumed("sku-ids", "SKU ids that were not observed are derived from the SKU's description.")
def _made_up_id(description: str, regions: list[str]) -> str:
    digest = hashlib.sha256(f"{description} {regions}".encode()).hexdigest().upper()
    return f"{digest[:4]}-{digest[4:8]}-{digest[8:12]}"
