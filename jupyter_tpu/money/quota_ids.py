"""The ids of TPU quotas, and the quotas that a node counts against.

This module is pure.

An id is ``TPU{V2s|V3s|V4s|V5s|V5P|V6E}[Preemptible][Pod|Litepod|LitepodServing]PerProjectPer{Zone|Region}ForTPUAPI``.
The catalogue lists the sources for these ids.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from jupyter_tpu import accelerators
from jupyter_tpu.accelerators import Accelerator, Generation, QuotaUnit
from jupyter_tpu.errors import Text

Scope = Literal["zone", "region"]

SERVICE = "tpu.googleapis.com"
SCOPES: tuple[Scope, ...] = ("zone", "region")

# v5e nodes of up to 8 chips use the Serving bucket (the error for a v5litepod-8 contains the LitepodServing quota's
# ID).
_LARGEST_SERVING_CHIPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One quota of a TPU generation, for on-demand or for preemptible and spot nodes, in a zone or in a region.

    Attributes:
        bucket: ``Pod``, ``Litepod``, ``LitepodServing`` or empty.
    """

    generation: str
    is_preemptible: bool
    bucket: str
    scope: Scope

    @property
    def quota_id(self) -> str:
        """The id in Cloud Quotas and in the API's error messages."""
        preemptible = "Preemptible" if self.is_preemptible else ""
        family = self._generation.quota_family
        return f"TPU{family}{preemptible}{self.bucket}PerProjectPer{self.scope.capitalize()}ForTPUAPI"

    @property
    def metric(self) -> str:
        """The quota's metric, such as ``tpu.googleapis.com/tpu-v5s-litepod-preemptible``.

        Service Usage identifies quotas by their metrics.
        """
        metric = self._generation.quota_metrics[self.bucket]
        return f"{SERVICE}/{metric}{'-preemptible' if self.is_preemptible else ''}"

    @property
    def unit(self) -> QuotaUnit:
        """The quota's unit."""
        return self._generation.quota_unit

    @property
    def label(self) -> str:
        """The quota's display name, such as ``v5e, up to 8 chips, spot``."""
        if self.is_preemptible:
            return Text("{generation}{sizes}, spot", generation=self.generation, sizes=self._sizes)
        return Text("{generation}{sizes}, on-demand", generation=self.generation, sizes=self._sizes)

    @property
    def _sizes(self) -> str:
        if self.generation == "v5e":
            serving = self.bucket == "LitepodServing"
            count = _LARGEST_SERVING_CHIPS
            template = Text(", up to {count} chips") if serving else Text(", more than {count} chips")
            return template.with_arguments(count=count)
        if len(self._generation.quota_metrics) == 1:
            return ""
        return Text(", several VMs") if self.bucket else Text(", one VM")

    @property
    def _generation(self) -> Generation:
        return accelerators.generation_facts(self.generation)

    def place(self, zone: str) -> str:
        """Return the zone, or its region if the quota is per region."""
        return zone if self.scope == "zone" else accelerators.region_of(zone)

    def is_offered_in(self, place: str) -> bool:
        """Return whether the zone or region offers this generation."""
        return place in {self.place(zone) for zone in accelerators.zones_for(self.generation)}


@functools.cache
def all_quotas() -> tuple[Quota, ...]:
    """Return all known quotas, grouped by generation."""
    return tuple(
        Quota(generation=generation, is_preemptible=is_preemptible, bucket=bucket, scope=scope)
        for generation in accelerators.generations()
        for bucket in accelerators.generation_facts(generation).quota_metrics
        for is_preemptible in (False, True)
        for scope in SCOPES
    )


@functools.cache
def quotas_by_id() -> Mapping[str, Quota]:
    """Return all known quotas by id."""
    return {quota.quota_id: quota for quota in all_quotas()}


@functools.cache
def quotas_by_metric() -> Mapping[tuple[str, Scope], Quota]:
    """Return all known quotas by Service Usage metric and scope."""
    return {(quota.metric, quota.scope): quota for quota in all_quotas()}


def quotas_of(kind: Accelerator, *, is_preemptible: bool) -> tuple[Quota, ...]:
    """Return the zonal and regional quotas that a node of this type counts against; both quotas must be sufficient."""
    bucket = _bucket_of(kind)
    return tuple(
        Quota(generation=kind.generation, is_preemptible=is_preemptible, bucket=bucket, scope=scope) for scope in SCOPES
    )


def _bucket_of(kind: Accelerator) -> str:
    small, *larger = accelerators.generation_facts(kind.generation).quota_metrics
    is_small = kind.chips <= _LARGEST_SERVING_CHIPS if kind.generation == "v5e" else kind.workers == 1
    return small if is_small or not larger else larger[0]


def amount_of(kind: Accelerator) -> int:
    """Return how much quota a node of this type uses, in the unit of its quotas."""
    return kind.chips if accelerators.generation_facts(kind.generation).quota_unit == "chips" else kind.tensorcores
