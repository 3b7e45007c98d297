"""How past creations of nodes are counted: the hint on likely capacity."""

from __future__ import annotations

from typing import Any

from jupyter_tpu.errors import BadInput, OutOfCapacity
from jupyter_tpu.fleet.capacity.creation_history import CreationCounts, creation_counts
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.models import NodeName, NodeSpec

ZONE = "us-central1-a"


def creation(at: float, *, zone: str = ZONE, phase: str = "ready", **fields: Any) -> Intent:
    name = NodeName(project="my-project", zone=zone, node_id="node-1")
    spec = NodeSpec(name=name, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite")
    fields = {"verb": "create", "settled": True, **fields}
    return Intent(intent_id=f"i-{at}", node_name=name, spec=spec, phase=phase, created_at=at, **fields)


def test_creations_are_counted_by_zone_and_type() -> None:
    refused = creation(3.0, phase="failed", error=OutOfCapacity("Full."))

    counts = creation_counts([creation(2.0), creation(1.0), refused, creation(4.0, zone="us-east5-b")])

    assert counts[ZONE, "v5litepod-8"] == CreationCounts(created=2, out_of_capacity=1, last_created_at=2.0)
    assert counts["us-east5-b", "v5litepod-8"].created == 1


def test_other_refusals_and_what_is_not_over_say_nothing_about_capacity() -> None:
    counts = creation_counts(
        [
            creation(1.0, phase="failed", error=BadInput("No.")),
            creation(2.0, phase="cancelled"),
            creation(3.0, phase="booting", settled=False),
            creation(4.0, verb="delete", phase="deleted"),
        ]
    )

    assert counts.get((ZONE, "v5litepod-8"), CreationCounts()) == CreationCounts()
