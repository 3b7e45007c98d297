"""Service Usage's consumer quota: metrics, their limits by zone and region, and the buckets of each limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.limits.quota_ids import QuotaId, all_quota_ids
from jupyter_tpu.emulator.resources.behaviours import assumed, documented, recorded
from jupyter_tpu.emulator.services.quota.limits import SERVICE, EngineLimits, Limits, metric_of, metric_title, places
from jupyter_tpu.emulator.services.requests.errors import missing
from jupyter_tpu.emulator.services.requests.service_calls import Method, ServiceCall, check_project, page

_PERMISSION = "serviceusage.quotas.get"
_VIEWS = ("QUOTA_VIEW_UNSPECIFIED", "BASIC", "FULL")


class ConsumerQuota:
    """The read-only API methods that show the engine's limits; changes are requested in Cloud Quotas."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._limits = EngineLimits(cloud)

    def methods(self) -> list[Method]:
        """Return the supported methods."""
        parent = "v1beta1/projects/{project}/services/{service}/consumerQuotaMetrics"
        return [
            Method(verb="GET", path=parent, answer=self.list_all, permission=_PERMISSION),
            Method(verb="GET", path=parent + "/{metric}", answer=self.get, permission=_PERMISSION),
            Method(verb="GET", path=parent + "/{metric}/limits/{limit}", answer=self.limit, permission=_PERMISSION),
        ]

    def list_all(self, call: ServiceCall) -> Mapping[str, Any]:
        """Handle ``consumerQuotaMetrics.list``: return one page of quota metrics."""
        parent = self._parent(call)
        metrics = sorted({metric_of(quota) for quota in all_quota_ids()}) if call.parts["service"] == SERVICE else []
        return page(call, "metrics", [self._metric(parent, metric) for metric in metrics])

    def get(self, call: ServiceCall) -> Mapping[str, Any]:
        """Handle ``consumerQuotaMetrics.get``: return one quota metric with its limits."""
        return self._metric(self._parent(call), call.parts["metric"])

    def limit(self, call: ServiceCall) -> Mapping[str, Any]:
        """Handle ``consumerQuotaMetrics.limits.get``: return one limit of a quota metric."""
        metric = self.get(call)
        name = f"{metric['name']}/limits/{quote(call.parts['limit'], safe='')}"
        for each in metric["consumerQuotaLimits"]:
            if each["name"] == name:
                return dict(each)
        raise missing(name)

    @assumed("consumer-quota-view", "Every view of a consumer quota shows all fields.")
    def _parent(self, call: ServiceCall) -> str:
        call.word("view", *_VIEWS)
        project = check_project(self._cloud, call, _PERMISSION)
        return f"projects/{project}/services/{call.parts['service']}/consumerQuotaMetrics"

    @documented(
        "consumer-quota-names",
        "In the resource names of metrics and limits, every slash is written as %2F.",
        source="Service Usage API v1beta1, ConsumerQuotaMetric.name",
    )
    def _metric(self, parent: str, metric: str) -> dict[str, Any]:
        quotas = [quota for quota in all_quota_ids() if metric_of(quota) == metric]
        name = f"{parent}/{quote(metric, safe='')}"
        # every node quota has a metric, so an empty list means an unknown metric
        if not quotas:
            raise missing(name)
        return {
            "name": name,
            "metric": metric,
            "displayName": metric_title(quotas[0]),
            "unit": "1",
            "consumerQuotaLimits": [self._limit(name, quota) for quota in sorted(quotas, key=_zones_first)],
        }

    def _limit(self, parent: str, quota: QuotaId) -> dict[str, Any]:
        return {
            "name": f"{parent}/limits/{quote(f'/project/{quota.scope}', safe='')}",
            "metric": metric_of(quota),
            # the unit includes the scope of the limit
            "unit": f"1/{{project}}/{{{quota.scope}}}",
            "isPrecise": True,
            "allowsAdminOverrides": True,
            "supportedLocations": list(places(quota.scope)),
            "quotaBuckets": self._buckets(self._limits.of(quota)),
        }

    @recorded(
        "consumer-quota-buckets",
        "A limit has one default bucket without dimensions, and one bucket for each location with a different "
        "limit. A missing effectiveLimit is 0, and -1 means unlimited.",
        source="scripts of two public repositories that read consumerQuotaMetrics",
    )
    @assumed("consumer-quota-default", "defaultLimit is the project's limit before any quota increase.")
    def _buckets(self, limits: Limits) -> list[dict[str, Any]]:
        quota = limits.quota
        own = [
            _bucket(value, self._limits.default_limit(quota, place), {quota.scope: place})
            for place, value in sorted(limits.others.items())
        ]
        return [_bucket(limits.default, limits.default, {}), *own]


def _bucket(effective: int, default: int, dimensions: Mapping[str, str]) -> dict[str, Any]:
    return {
        **({"effectiveLimit": str(effective)} if effective else {}),
        **({"defaultLimit": str(default)} if default else {}),
        **({"dimensions": dict(dimensions)} if dimensions else {}),
    }


def _zones_first(quota: QuotaId) -> bool:
    return quota.scope != "zone"
