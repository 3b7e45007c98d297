"""Read today's list prices of TPU chips from Google's billing catalogue, which any signed-in user may read."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from jupyter_tpu.cloud.emulator_address import emulator_address
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import CloudUnavailable, Text
from jupyter_tpu.money.sku_prices import SkuPrices, prices_of

if TYPE_CHECKING:
    from jupyter_tpu.cloud.services.rest import RestClient

_TITLE, _HOST = "Cloud Billing API", "cloudbilling.googleapis.com"
_ROLE = "roles/serviceusage.serviceUsageConsumer"

_SERVICES = ("E000-3F24-B8AA", "6F81-5844-456A")
"""The ids of Cloud TPU, which sells v2 to v4, and of Compute Engine, which sells all later generations."""

# Compute Engine has many SKUs, so request large pages and only the required fields.
_QUERY = {
    "currencyCode": "USD",
    "pageSize": "5000",
    "fields": "skus(description,serviceRegions,pricingInfo),nextPageToken",
}


def catalog_address(settings: CloudSettings, environment: Mapping[str, str]) -> str:
    """Return the catalogue's address, or an empty string for an emulated cloud whose REST address is not set."""
    return emulator_address(settings, environment) if settings.is_emulated else f"https://{_HOST}"


def read_catalog(settings: CloudSettings, environment: Mapping[str, str], as_of: str) -> SkuPrices:
    """Return the list prices, dated `as_of`, which must be today. Blocks for seconds, so call it in a thread.

    Raises:
        ApiDisabled, PermissionDenied, RateExceeded, CloudRefused, CredentialsMissing: the request was refused.
        CloudUnavailable: there was no response, or the response contains no TPU prices.
    """
    # Import here, because importing Google's client is slow.
    rest = importlib.import_module("jupyter_tpu.cloud.services.rest")
    client: RestClient = rest.RestClient.open(settings, rest.Service(title=_TITLE, host=_HOST, role=_ROLE), environment)
    with closing(client):
        reading = prices_of(_skus(client), as_of)
    if not reading.rows:
        reason = "; ".join(reading.skipped[:3])
        raise CloudUnavailable(
            Text("The {service} contains no readable TPU prices.", service=_TITLE), hint="Try again later.", raw=reason
        )
    return reading


def _skus(client: RestClient) -> Iterator[Any]:
    for service in _SERVICES:
        for page in client.pages(f"/v1/services/{service}/skus", _QUERY):
            listed = page.get("skus", [])
            yield from listed if isinstance(listed, list) else ()
