"""Today's list prices of TPU chips, from Google's Billing Catalog. Everybody who is signed in may read it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from jupyter_tpu.cloud.emulator_address import emulator_address
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import CloudUnavailable
from jupyter_tpu.money.prices import Reading, prices_of

if TYPE_CHECKING:
    from jupyter_tpu.cloud.services.rest import RestDoor

_TITLE, _HOST = "Cloud Billing API", "cloudbilling.googleapis.com"
_ROLE = "roles/serviceusage.serviceUsageConsumer"

_SERVICES = ("E000-3F24-B8AA", "6F81-5844-456A")
"""Cloud TPU has v2 to v4, Compute Engine (with some ten thousand SKUs of other things) all that came later."""

_QUERY = {
    "currencyCode": "USD",
    "pageSize": "5000",
    "fields": "skus(description,serviceRegions,pricingInfo),nextPageToken",
}


def catalog_address(settings: CloudSettings, environment: Mapping[str, str]) -> str:
    """Where the catalogue is; empty for an emulated cloud when nobody said where its REST services are."""
    return emulator_address(settings, environment) if settings.is_emulated else f"https://{_HOST}"


def read_catalog(settings: CloudSettings, environment: Mapping[str, str], as_of: str) -> Reading:
    """The prices of the day `as_of`, which is today. Blocks, for seconds; call it in a thread.

    Raises:
        ApiDisabled, PermissionDenied, RateExceeded, CloudRefused, CredentialsMissing: it was refused.
        CloudUnavailable: no answer, or none that has prices of TPUs.
    """
    # Google's client takes a while to import
    rest = importlib.import_module("jupyter_tpu.cloud.services.rest")
    door: RestDoor = rest.RestDoor.open(settings, rest.Service(title=_TITLE, host=_HOST, role=_ROLE), environment)
    with closing(door):
        reading = prices_of(_skus(door), as_of)
    if not reading.rows:
        reason = "; ".join(reading.passed_over[:3])
        raise CloudUnavailable(
            f"The {_TITLE} lists no price of TPUs that can be read.", hint="Try again later.", raw=reason
        )
    return reading


def _skus(door: RestDoor) -> Iterator[Any]:
    for service in _SERVICES:
        for page in door.pages(f"/v1/services/{service}/skus", _QUERY):
            listed = page.get("skus", [])
            yield from listed if isinstance(listed, list) else ()
