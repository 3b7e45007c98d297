"""Results of recent node creations by zone and accelerator type, as a hint about likely capacity.

This module is pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from jupyter_tpu.errors import OutOfCapacity
from jupyter_tpu.lifecycle.intents import Intent

LOOK_BACK_S = 30 * 86400.0
"""Maximum age of a counted creation, in seconds.

Capacity changes from week to week, but fewer days have too little data.
"""

Place = tuple[str, str]
"""Zone and accelerator type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationCounts:
    """Results of creating nodes of one accelerator type in one zone.

    Attributes:
        created: number of nodes created.
        out_of_capacity: number of requests that failed because the zone had no capacity.
        last_created_at: when the last node was created (Unix seconds), or None.
    """

    created: int = 0
    out_of_capacity: int = 0
    last_created_at: float | None = None


NO_CREATIONS = CreationCounts()


def creation_counts(intents: Iterable[Intent]) -> Mapping[Place, CreationCounts]:
    """Count the results of finished create intents, by zone and accelerator type."""
    counts: dict[Place, CreationCounts] = {}
    for intent in intents:
        if intent.spec is None or intent.verb != "create" or not intent.settled:
            continue
        place = (intent.node_name.zone, intent.spec.accelerator_type)
        counts[place] = _counted(counts.get(place, NO_CREATIONS), intent)
    return counts


def _counted(counts: CreationCounts, intent: Intent) -> CreationCounts:
    if isinstance(intent.error, OutOfCapacity):
        return replace(counts, out_of_capacity=counts.out_of_capacity + 1)
    if intent.phase != "ready":  # it was cancelled or failed for another reason, so it says nothing about capacity
        return counts
    last = max(counts.last_created_at or 0.0, intent.created_at)
    return replace(counts, created=counts.created + 1, last_created_at=last)
