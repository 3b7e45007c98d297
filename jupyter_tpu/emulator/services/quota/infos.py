"""Cloud Quotas v1 and v1beta: the quotas of tpu.googleapis.com, by zone and by region."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.limits.quota_ids import parse_quota_id
from jupyter_tpu.emulator.resources.behaviours import assumed, documented, recorded
from jupyter_tpu.emulator.services.quota.limits import SERVICE, EngineLimits, Limits, metric_of, metric_title
from jupyter_tpu.emulator.services.requests.errors import missing
from jupyter_tpu.emulator.services.requests.service_calls import (
    GLOBAL,
    GoogleService,
    Method,
    ServiceCall,
    check_global,
    check_project,
    page,
)

VERSIONS = ("v1", "v1beta")
_OWNS = r"v1(?:beta)?/(?:projects|folders|organizations)/[^/]+/locations/[^/]+/(?:services|quota[A-Z]\w+)(?:/.*)?"


def quotas_service(cloud: Cloud) -> GoogleService:
    """Return the service with its methods. Quota preferences (requests to change a limit) are not supported."""
    infos = QuotaInfos(cloud)
    methods = [method for version in VERSIONS for method in infos.methods(version)]
    return GoogleService(name="cloudquotas", owns=_OWNS, methods=tuple(methods))


class QuotaInfos:
    """The API methods that show quota limits by zone or region. This API does not show usage."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._limits = EngineLimits(cloud)

    def methods(self, version: str) -> list[Method]:
        """Return the supported methods of an API version."""
        parent = f"{version}/projects/{{project}}/{GLOBAL}/services/{{service}}/quotaInfos"
        permission = "cloudquotas.quotas.get"
        return [
            Method(verb="GET", path=parent, answer=self.list, permission=permission),
            Method(verb="GET", path=parent + "/{quota_id}", answer=self.get, permission=permission),
        ]

    @assumed("quotas-of-others", "The emulated project has quotas only for the service tpu.googleapis.com.")
    def list(self, call: ServiceCall) -> Mapping[str, Any]:
        """Handle ``quotaInfos.list``: return one page of quotas."""
        parent = self._parent(call)
        limits = self._limits.all() if call.parts["service"] == SERVICE else []
        return page(call, "quotaInfos", limits, key=_id_of, show=lambda each: quota_info(parent, each))

    def get(self, call: ServiceCall) -> Mapping[str, Any]:
        """Handle ``quotaInfos.get``: return one quota."""
        parent = self._parent(call)
        try:
            # every node quota exists in every project, whether limited or not
            quota = parse_quota_id(call.parts["quota_id"])
        except ValueError as error:
            raise missing(f"{parent}/quotaInfos/{call.parts['quota_id']}") from error
        return quota_info(parent, self._limits.of(quota))

    def _parent(self, call: ServiceCall) -> str:
        check_global(call)
        project = check_project(self._cloud, call, "cloudquotas.quotas.get")
        return f"projects/{project}/locations/global/services/{call.parts['service']}"


@recorded(
    "quota-info",
    "A QuotaInfo has one dimensionsInfo for each location with its own limit, followed by one without "
    "dimensions that has the value for all its applicableLocations. A value of 0 is omitted; 64-bit numbers are"
    " strings.",
    source="scripts of public repositories that read quotaInfos; gcloud 528.0.0",
)
@assumed("quota-info-texts", "The titles of quotas and metrics are invented.")
def quota_info(parent: str, limits: Limits) -> dict[str, Any]:
    """Return a ``QuotaInfo``."""
    quota = limits.quota
    own = [_dimensions_info([place], value, {quota.scope: place}) for place, value in sorted(limits.others.items())]
    # the last entry has no dimensions and applies to all other locations
    rest = limits.places_with_default
    return {
        "name": f"{parent}/quotaInfos/{quota}",
        "quotaId": str(quota),
        "metric": metric_of(quota),
        "service": SERVICE,
        "isPrecise": True,
        "containerType": "PROJECT",
        "dimensions": [quota.scope],
        "metricDisplayName": metric_title(quota),
        "quotaDisplayName": f"{metric_title(quota)} per project per {quota.scope}",
        "metricUnit": "1",
        "dimensionsInfos": own + ([_dimensions_info(rest, limits.default, {})] if rest else []),
        "quotaIncreaseEligibility": {"isEligible": True},
    }


def _id_of(limits: Limits) -> str:
    return str(limits.quota)


@documented(
    "quota-info-order",
    "More specific dimensions precede less specific ones.",
    source="Cloud Quotas API, QuotaInfo.dimensionsInfos",
)
def _dimensions_info(locations: list[str], value: int, dimensions: Mapping[str, str]) -> dict[str, Any]:
    return {
        **({"dimensions": dict(dimensions)} if dimensions else {}),
        "details": {"value": str(value)} if value else {},
        "applicableLocations": locations,
    }
