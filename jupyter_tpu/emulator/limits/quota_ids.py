"""Parse and build the ids of TPU quotas, and find the quotas that a node counts against.

``TPU{V2s|V3s|V4s|V5s|V5P|V6E}[Preemptible][Pod|Litepod|LitepodServing]PerProjectPer{Zone|Region}ForTPUAPI``
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.resources.behaviours import assumed, recorded
from jupyter_tpu.emulator.resources.protos import NodePb

SCOPES = ("region", "zone")
UNLIMITED = -1  # Service Usage shows an unlimited quota as -1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaId:
    """One quota of a TPU generation, for on-demand or for preemptible and spot nodes, in a zone or in a region.

    Attributes:
        bucket: the part of the id that selects the quota: ``Pod``, ``Litepod``, ``LitepodServing`` or empty.
        scope: ``zone`` or ``region``.
    """

    generation: str
    is_preemptible: bool
    bucket: str
    scope: str

    def __str__(self) -> str:
        preemptible = "Preemptible" if self.is_preemptible else ""
        family = accelerators.generation_facts(self.generation).quota_family
        return f"TPU{family}{preemptible}{self.bucket}PerProjectPer{self.scope.capitalize()}ForTPUAPI"

    @property
    def counts_chips(self) -> bool:
        """Whether the quota counts chips, not TensorCores."""
        return accelerators.generation_facts(self.generation).quota_unit == "chips"


def parse_quota_id(text: str) -> QuotaId:
    """Return the quota with this id. Raises ValueError if it is not the id of a TPU quota."""
    known = {str(each): each for each in all_quota_ids()}
    if text not in known:
        raise ValueError(f"{text[:80]!r} is not the id of a quota of tpu.googleapis.com")
    return known[text]


@functools.cache
def all_quota_ids() -> tuple[QuotaId, ...]:
    """Return all quotas for nodes, grouped by generation."""
    return tuple(
        QuotaId(generation=generation, is_preemptible=is_preemptible, bucket=bucket, scope=scope)
        for generation in accelerators.generations()
        for is_preemptible in (False, True)
        for bucket in buckets_of(generation)
        for scope in SCOPES
    )


def buckets_of(generation: str) -> tuple[str, ...]:
    """Return the buckets of a generation's quotas (see `QuotaId`); the bucket for small nodes is first."""
    return tuple(accelerators.generation_facts(generation).quota_metrics)


@recorded(
    "quota-ids",
    "v5e nodes of up to 8 chips use the LitepodServing quota, and larger ones use the Litepod quota. v4 nodes "
    "of any size and larger slices of v2 and v3 use the Pod quota. Spot and preemptible nodes have separate "
    "limits.",
    source="marin-community/marin#6198, #1612; error bodies in public logs",
)
def quota_ids_of(node: NodePb) -> tuple[QuotaId, QuotaId]:
    """Return the two quotas that a node counts against: the regional quota, then the zonal quota."""
    kind = accelerators.accelerator(node.accelerator_type)
    by_region = QuotaId(
        generation=kind.generation, is_preemptible=is_preemptible(node), bucket=bucket_of(kind), scope="region"
    )
    return by_region, replace(by_region, scope="zone")


def bucket_of(kind: accelerators.Accelerator) -> str:
    """Return the quota bucket of an accelerator type; see `QuotaId`."""
    small, *larger = buckets_of(kind.generation)
    # v5e has separate quotas for up to 8 chips and for more chips; v2 and v3 have them for one VM and for several VMs
    is_small = kind.chips <= 8 if kind.generation == "v5e" else kind.workers == 1
    return small if is_small or not larger else larger[0]


@assumed("quota-unit", "For quota, v2 to v5p are counted in TensorCores, and v5e and v6e in chips.")
def units_of(node: NodePb) -> int:
    """Return how much quota a node uses, in the unit of its generation's quotas: chips or TensorCores."""
    kind = accelerators.accelerator(node.accelerator_type)
    return kind.chips if accelerators.generation_facts(kind.generation).quota_unit == "chips" else kind.tensorcores


def is_preemptible(node: NodePb) -> bool:
    """Return whether a node counts against preemptible quota, which includes spot nodes."""
    return bool(node.scheduling_config.spot or node.scheduling_config.preemptible)


def place_of(quota: QuotaId, zone: str) -> str:
    """Return the zone, or its region for a regional quota."""
    return zone if quota.scope == "zone" else accelerators.region_of(zone)
