"""Default quota limits, for three kinds of projects."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.limits.quota_ids import UNLIMITED, QuotaId, buckets_of
from jupyter_tpu.emulator.resources.behaviours import assumed, documented, recorded

PROFILES = ("generous", "new_project", "trc_grant")
GENEROUS_ZONE, GENEROUS_REGION = 4096, 65_536  # assumed (behaviour `quota-default`); a region has several zones
_NEW_V5E = {"LitepodServing": 4, "Litepod": 16}


def default_limit(profile: str, quota: QuotaId, place: str) -> int:
    """Return a profile's limit in a zone or region, in the quota's unit (chips or TensorCores); -1 means unlimited."""
    if profile == "trc_grant":
        return _granted().get((quota, place), new_project_limit(quota))
    return new_project_limit(quota) if profile == "new_project" else generous_limit(quota)


@assumed(
    "quota-default", "In the generous profile, any quota without an explicit limit has a limit of 4096 in every zone."
)
def generous_limit(quota: QuotaId) -> int:
    """Return the limit of the generous profile."""
    return GENEROUS_ZONE if quota.scope == "zone" else GENEROUS_REGION


@documented(
    "quota-new-project",
    "A new project can use 16 on-demand and 48 preemptible TensorCores of single v2 and v3 nodes, and nothing else.",
    source="cloud.google.com/tpu/docs/quota (an older copy)",
)
@recorded(
    "quota-new-project-v5e",
    "A new project can use 4 chips of small v5e nodes and 16 chips of larger ones.",
    source="two public reports of 2026 on new projects",
)
@assumed(
    "quota-new-project-v5e-region",
    "The v5e quota of a new project is limited per zone only, because recorded refusals for such projects "
    "mention no regional limit.",
)
def new_project_limit(quota: QuotaId) -> int:
    """Return a new project's limit for this quota."""
    if quota.generation in ("v2", "v3") and not quota.bucket:
        return 48 if quota.is_preemptible else 16
    if quota.generation != "v5e":
        return 0
    return _NEW_V5E[quota.bucket] if quota.scope == "zone" else UNLIMITED


@recorded(
    "quota-trc-grant",
    "The standard grant of the TPU Research Cloud is the one in its 2026 email.",
    source="catalogue.json, trc_grants (identical text in five public repositories)",
)
@assumed(
    "quota-trc-region",
    "A grant for a zone raises the limit of its region by the same amount. v4 is counted in TensorCores, two per chip.",
)
@functools.cache
def _granted() -> Mapping[tuple[QuotaId, str], int]:
    limits: dict[tuple[QuotaId, str], int] = {}
    for row in accelerators.catalogue()["trc_grants"][0]["rows"]:
        for scope, place in (("zone", row["zone"]), ("region", accelerators.region_of(row["zone"]))):
            quota = granted_quota(row["generation"], row["tier"] == "spot", scope)
            # a grant doesn't lower an unlimited quota
            if new_project_limit(quota) == UNLIMITED:
                continue
            limits[quota, place] = limits.get((quota, place), 0) + granted_units(quota, row["chips"])
    return limits


def granted_quota(generation: str, is_spot: bool, scope: str) -> QuotaId:
    """Return the quota that a grant for this generation raises; if there are two, the quota for larger slices."""
    *_, largest = buckets_of(generation)
    return QuotaId(generation=generation, is_preemptible=is_spot, bucket=largest, scope=scope)


def granted_units(quota: QuotaId, chips: int) -> int:
    """Convert a grant's number of chips to the unit of the quota (chips or TensorCores)."""
    return chips if quota.counts_chips else chips * accelerators.generation_facts(quota.generation).cores_per_chip
