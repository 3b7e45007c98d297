"""The quota engine's limits and usage, in the form that Google's quota services return.

The emulated quota services access the engine only through this module. A limit set here also applies when nodes are
created, and a limit set in the engine is also returned here.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.limits.quota_ids import QuotaId, all_quota_ids
from jupyter_tpu.emulator.resources.behaviours import assumed, recorded

SERVICE = "tpu.googleapis.com"


@recorded(
    "quota-metrics",
    "Quota metrics are named tpu.googleapis.com/tpu-v6e-preemptible, tpu-v5p-preemptible, tpu-v5s-litepod-preemptible, "
    "tpu-v5s-litepod-serving-preemptible and tpu-v4s-preemptible.",
    source="scripts of public repositories that read consumerQuotaMetrics",
)
@assumed(
    "quota-metrics-others",
    "The quota metrics for on-demand nodes have the same names without the suffix -preemptible. For v2 and v3, "
    "they are tpu-v2s and tpu-v3s, with -pod for larger slices.",
)
def metric_of(quota: QuotaId) -> str:
    """Return the quota metric of a quota."""
    metric = accelerators.generation_facts(quota.generation).quota_metrics[quota.bucket]
    return f"{SERVICE}/{metric}{'-preemptible' if quota.is_preemptible else ''}"


def metric_title(quota: QuotaId) -> str:
    """Return a title such as ``Preemptible TPU v5e Litepod chips``."""
    words = ["Preemptible" if quota.is_preemptible else "", "TPU", quota.generation, quota.bucket]
    return " ".join([word for word in words if word] + ["chips" if quota.counts_chips else "TensorCores"])


@functools.cache
def places(scope: str) -> tuple[str, ...]:
    """Return all zones that offer TPUs, or their regions.

    Each quota has a limit in all these places, even where its generation is not offered.
    """
    zones = accelerators.zones()
    return zones if scope == "zone" else tuple(sorted({accelerators.region_of(zone) for zone in zones}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one quota in all its zones or regions.

    Attributes:
        default: the limit in most places, in chips or TensorCores; -1 means unlimited.
        others: the limits that differ from the default, by place.
    """

    quota: QuotaId
    default: int
    others: Mapping[str, int]

    @property
    def places_with_default(self) -> list[str]:
        """The places with the default limit."""
        return [place for place in places(self.quota.scope) if place not in self.others]


class EngineLimits:
    """Access to the limits that the quota engine applies."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def all(self) -> list[Limits]:
        """Return all quotas for nodes, by id."""
        return [self.of(quota) for quota in sorted(all_quota_ids(), key=str)]

    def of(self, quota: QuotaId) -> Limits:
        """Return the limits of one quota in all its zones or regions."""
        here = places(quota.scope)
        defaults = Counter(self._cloud.rules.quotas.default_limit(quota, place) for place in here)
        # use the most frequent value, so that the list of exceptions is short
        default = defaults.most_common(1)[0][0]
        limits = {place: self._cloud.rules.quotas.limit(quota, place) for place in here}
        return Limits(
            quota=quota, default=default, others={place: value for place, value in limits.items() if value != default}
        )

    def default_limit(self, quota: QuotaId, place: str) -> int:
        """Return the default limit of a quota in a zone or region, from the project's quota profile."""
        return self._cloud.rules.quotas.default_limit(quota, place)
