"""The time at which the cloud will terminate a node, as v2alpha1 shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import timestamp_pb2

from jupyter_tpu.emulator.resources.behaviours import assumed, documented


@documented(
    "termination-timestamp",
    "v2alpha1 shows when a node will be terminated in schedulingConfig.terminationTimestamp.",
    source="v2alpha1 discovery document, SchedulingConfig",
)
@assumed(
    "termination-timestamp-nodes",
    "Preemptible nodes and nodes with a run duration show terminationTimestamp once they run.",
)
def with_termination(extras: Mapping[str, Any], moment: float) -> dict[str, Any]:
    """Return a node's extra fields (those that v2 lacks), with the virtual time of its termination added."""
    shown = timestamp_pb2.Timestamp()
    shown.FromNanoseconds(int(moment * 1e9))
    config = {**extras.get("schedulingConfig", {}), "terminationTimestamp": shown.ToJsonString()}
    return {**extras, "schedulingConfig": config}
