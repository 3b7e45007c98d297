"""Quota: how many chips or TensorCores a project may hold per zone, told apart by generation and by spot.

Limits are set by the control API; what is not limited there has `DEFAULT_LIMIT`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.behaviours import assumed, recorded
from jupyter_tpu.emulator.errors import quota_exceeded
from jupyter_tpu.emulator.protos import NodePb

DEFAULT_LIMIT = 4096
_FAMILIES = {"v2": "V2s", "v3": "V3s", "v4": "V4s", "v5e": "V5s", "v5p": "V5P", "v6e": "V6E"}


@recorded(
    "quota-ids",
    "v5e with at most 8 chips uses the LitepodServing quota, more chips the Litepod one; spot and preemptible have "
    "limits of their own.",
    source="marin-community/marin#6198, #1612; error bodies in public logs",
)
def quota_id(kind: accelerators.Accelerator, is_preemptible: bool) -> str:
    preemptible = "Preemptible" if is_preemptible else ""
    return f"TPU{_FAMILIES[kind.generation]}{_bucket(kind, preemptible)}PerProjectPerZoneForTPUAPI"


def _bucket(kind: accelerators.Accelerator, preemptible: str) -> str:
    if kind.generation == "v5e" and kind.chips <= 8:
        return f"LitepodServing{preemptible}"
    if kind.generation == "v5e":
        return f"{preemptible}Litepod"
    is_pod = kind.generation in ("v2", "v3", "v4") and kind.workers > 1
    return f"{preemptible}Pod" if is_pod else preemptible


@assumed("quota-unit", "v2 to v5p count TensorCores against the quota, v5e and v6e count chips.")
def units(kind: accelerators.Accelerator) -> int:
    return kind.chips if kind.generation in ("v5e", "v6e") else kind.tensorcores


def is_preemptible(node: NodePb) -> bool:
    return bool(node.scheduling_config.spot or node.scheduling_config.preemptible)


@dataclass(slots=True)
class Quotas:
    """Limits of the project by (quota id, zone)."""

    limits: dict[tuple[str, str], int] = field(default_factory=dict)

    @assumed("quota-default", "A quota that no test has set has room for 4096 chips or TensorCores in every zone.")
    def limit(self, quota: str, zone: str) -> int:
        return self.limits.get((quota, zone), DEFAULT_LIMIT)

    @recorded(
        "husks-count",
        "What is left of a node (PREEMPTED, STOPPED) keeps counting against the quota until it is deleted.",
        source="marin-community/marin#87",
    )
    def check(self, new: NodePb, zone: str, held: Iterable[NodePb], project_number: str) -> None:
        """Raises the refusal E2 when `new` does not fit beside the nodes that the zone holds."""
        quota = _quota_of(new)
        used = sum(_units_of(node) for node in held if _quota_of(node) == quota)
        limit = self.limit(quota, zone)
        if used + _units_of(new) > limit:
            raise quota_exceeded(quota, limit, zone, project_number)


def _quota_of(node: NodePb) -> str:
    return quota_id(accelerators.accelerator(node.accelerator_type), is_preemptible(node))


def _units_of(node: NodePb) -> int:
    return units(accelerators.accelerator(node.accelerator_type))
