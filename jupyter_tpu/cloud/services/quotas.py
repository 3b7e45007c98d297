"""Read TPU quota limits from Cloud Quotas, or from Service Usage if Cloud Quotas is disabled or access is denied."""

from __future__ import annotations

import asyncio
import importlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import ApiDisabled, CloudUnavailable, PermissionDenied, Text, TpuError
from jupyter_tpu.money.quota import Key, QuotaLimits
from jupyter_tpu.money.quota_ids import SCOPES, SERVICE, Quota, quotas_by_id, quotas_by_metric

if TYPE_CHECKING:
    from jupyter_tpu.cloud.services.rest import RestClient

Entries = Iterator[tuple[Key, int]]
# Number of entries per page. It is moderate, because each entry lists all zones and is large.
_PAGE_SIZE = "100"
# Largest valid quota limit: the API's limits are 64-bit integers.
_LARGEST = 2**63


async def read_limits(settings: CloudSettings, environment: Mapping[str, str] | None = None) -> QuotaLimits:
    """Return the current limits of all quotas for TPU nodes in all zones and regions.

    Args:
        environment: environment variables, which may name an emulator; None for those of this process.

    Raises:
        ApiDisabled, PermissionDenied: neither service can be read; the error is from Cloud Quotas.
        CredentialsMissing, RateExceeded, CloudRefused, CloudUnavailable: the service failed.
    """
    variables = os.environ if environment is None else environment
    return await asyncio.to_thread(_read, settings, variables)


def _read(settings: CloudSettings, environment: Mapping[str, str]) -> QuotaLimits:
    try:
        return _from_cloud_quotas(settings, environment)
    except (ApiDisabled, PermissionDenied) as error:
        try:
            return _from_service_usage(settings, environment)
        # If both services fail, raise the first error, because its hint is about the preferred service.
        except (ApiDisabled, PermissionDenied) as second:
            error.raw = f"{error.raw}\n{second.raw}".strip()
            raise error from second


def _from_cloud_quotas(settings: CloudSettings, environment: Mapping[str, str]) -> QuotaLimits:
    path = f"/v1/projects/{settings.project}/locations/global/services/{SERVICE}/quotaInfos"
    service = ("Cloud Quotas API", "cloudquotas.googleapis.com", "roles/cloudquotas.viewer")
    return _limits(settings, environment, service, path, entries_of_quota_infos)


def _from_service_usage(settings: CloudSettings, environment: Mapping[str, str]) -> QuotaLimits:
    path = f"/v1beta1/projects/{settings.project}/services/{SERVICE}/consumerQuotaMetrics"
    service = ("Service Usage API", "serviceusage.googleapis.com", "roles/serviceusage.serviceUsageViewer")
    return _limits(settings, environment, service, path, entries_of_consumer_metrics)


def _limits(
    settings: CloudSettings,
    environment: Mapping[str, str],
    service: tuple[str, str, str],
    path: str,
    entries: Callable[[Mapping[str, Any]], Entries],
) -> QuotaLimits:
    # Importing Google's client is slow and must not block the event loop; this function runs in a thread.
    rest = importlib.import_module("jupyter_tpu.cloud.services.rest")
    title, host, role = service
    as_of = time.time()
    client: RestClient = rest.RestClient.open(settings, rest.Service(title=title, host=host, role=role), environment)
    with closing(client):
        values: dict[Key, int] = {}
        for page in client.pages(path, {"pageSize": _PAGE_SIZE}):
            try:
                values.update(entries(page))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise _unreadable(title, error) from error
    return QuotaLimits(values=values, source=title, as_of=as_of)


def _unreadable(title: str, error: Exception) -> TpuError:
    return CloudUnavailable(
        Text("The response from the {service} cannot be read.", service=title),
        hint="Try again in a minute.",
        raw=repr(error),
    )


def entries_of_quota_infos(page: Mapping[str, Any]) -> Entries:
    """Yield the limits in a page of Cloud Quotas' list; skip quotas that don't apply to nodes."""
    for info in page.get("quotaInfos", ()):
        quota = quotas_by_id().get(info.get("quotaId", ""))
        if quota is not None:
            yield from _of_info(quota, info.get("dimensionsInfos", ()))


def _of_info(quota: Quota, infos: Iterable[Mapping[str, Any]]) -> Entries:
    """Yield a quota's limits: first those for all locations, then the location-specific limits, which override them."""
    for info in sorted(infos, key=lambda each: bool(each.get("dimensions"))):
        value = _number(info.get("details", {}).get("value"))
        place = info.get("dimensions", {}).get(quota.scope)
        for location in [place] if place else info.get("applicableLocations", ()):
            yield (quota, _text(location)), value


def entries_of_consumer_metrics(page: Mapping[str, Any]) -> Entries:
    """Yield the limits in a page of Service Usage's list, which identifies quotas by metric and unit."""
    for metric in page.get("metrics", ()):
        for limit in metric.get("consumerQuotaLimits", ()):
            scope = next((scope for scope in SCOPES if limit.get("unit") == f"1/{{project}}/{{{scope}}}"), None)
            quota = quotas_by_metric().get((metric.get("metric", ""), scope)) if scope else None
            if quota is not None:
                yield from _of_limit(quota, limit)


def _of_limit(quota: Quota, limit: Mapping[str, Any]) -> Entries:
    buckets = sorted(limit.get("quotaBuckets", ()), key=lambda each: bool(each.get("dimensions")))
    for bucket in buckets:
        value = _number(bucket.get("effectiveLimit"))
        place = bucket.get("dimensions", {}).get(quota.scope)
        for location in [place] if place else limit.get("supportedLocations", ()):
            yield (quota, _text(location)), value


def _number(value: object) -> int:
    """Parse a 64-bit number, given as text in Google's JSON. Missing means 0, and a negative number means unlimited."""
    # Google's JSON omits fields with default values.
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{value!r:.100} is not a limit")
    number = int(value)
    if not -_LARGEST <= number < _LARGEST:
        raise ValueError(f"{value!r:.100} is not a limit")
    return max(number, -1)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.100} is not a location")
    return value
