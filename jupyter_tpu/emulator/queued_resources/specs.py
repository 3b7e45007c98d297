"""Parse a queued resource: which nodes it requests, in which tier, when and for how long. No I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import duration_pb2, timestamp_pb2

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.resources.errors import bad_field
from jupyter_tpu.emulator.resources.names import last_part, location_of
from jupyter_tpu.emulator.resources.protos import NodePb
from jupyter_tpu.emulator.resources.records import QueuedRecord

FLEX_START = "FLEX_START"
LONGEST_RUN_S = 7 * 86_400.0  # flex-start's documented maximum (behaviour `run-duration`)
_MODELS = ("", "PROVISIONING_MODEL_UNSPECIFIED", "STANDARD", "SPOT", "RESERVATION_BOUND", FLEX_START)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedNode:
    """A node that a queued resource will create; `node` includes the queued resource's scheduling options."""

    node_id: str
    node: NodePb
    extras: Mapping[str, Any]
    is_multislice: bool


def wanted_nodes(queued: Any, queued_id: str, extras: Mapping[str, Any]) -> list[WantedNode]:
    """Return all nodes of a ``QueuedResource``, in the order of its specs."""
    found = []
    for index, spec in enumerate(queued.tpu.node_spec):
        is_multislice = spec.HasField("multislice_params")
        extra = _spec_extras(extras, index).get("node", {})
        for node_id in node_ids_of(spec, queued_id):
            node = scheduled(spec.node, queued, extras)
            found.append(WantedNode(node_id=node_id, node=node, extras=extra, is_multislice=is_multislice))
    return found


@documented(
    "multislice-names",
    "The nodes of a multislice request are named <prefix>-0, <prefix>-1, …; without a prefix, the names start "
    "with the name of the request.",
    source="v2alpha1 discovery document, MultiNodeParams.nodeIdPrefix",
)
def node_ids_of(spec: Any, queued_id: str) -> Iterator[str]:
    """Yield the ids of the nodes of one ``NodeSpec``."""
    if spec.HasField("multislice_params"):
        # without a prefix, use the request's ID (behaviour `multislice-names`)
        prefix = spec.multislice_params.node_id_prefix or queued_id
        yield from (f"{prefix}-{number}" for number in range(spec.multislice_params.node_count))
    else:
        yield spec.node_id


def _spec_extras(extras: Mapping[str, Any], index: int) -> Mapping[str, Any]:
    specs = extras.get("tpu", {}).get("nodeSpec", [])
    return specs[index] if index < len(specs) else {}


@assumed("best-effort", "Nodes of the best_effort tier are preemptible nodes.")
def scheduled(requested: NodePb, queued: Any, extras: Mapping[str, Any]) -> NodePb:
    """Return the node with the tier of its queued resource; return it unchanged if the queued resource has no tier."""
    node = type(requested)()
    node.CopyFrom(requested)
    model = extras.get("provisioningModel", "")
    if queued.HasField("spot") or model == "SPOT":
        node.scheduling_config.spot = True
    # only v2alpha1 has this tier
    elif "bestEffort" in extras:
        node.scheduling_config.preemptible = True
    elif is_reserved(queued, extras):
        node.scheduling_config.reserved = True
    return node


def is_reserved(queued: Any, extras: Mapping[str, Any]) -> bool:
    """Return whether a queued resource uses chips of a reservation."""
    is_bound = extras.get("provisioningModel") == "RESERVATION_BOUND"
    return bool(queued.reservation_name) or is_bound or bool(extras.get("guaranteed", {}).get("reserved"))


def is_flex(extras: Mapping[str, Any]) -> bool:
    """Return whether a queued resource requests flex-start."""
    return bool(extras.get("provisioningModel") == FLEX_START)


@assumed("provisioning-model-once", "A provisioning model can't be combined with another tier.")
def check_model(queued: Any, extras: Mapping[str, Any]) -> None:
    """Raise an error if the provisioning model is unknown or can't be combined with the tier."""
    model = extras.get("provisioningModel", "")
    if model not in _MODELS:
        raise bad_field("queued_resource.provisioning_model", f"{str(model)[:40]!r} is not a provisioning model")
    has_spot = queued.HasField("spot") or "bestEffort" in extras
    if (model == FLEX_START and (has_spot or is_reserved(queued, extras))) or (
        model in ("STANDARD", "RESERVATION_BOUND") and has_spot
    ):
        raise bad_field("queued_resource.provisioning_model", f"{model} cannot be combined with another tier")


@documented(
    "flex-start-zones",
    "Flex-start is offered for v6e in asia-northeast1-b and us-east5-a, and for v5e in us-west4-a and us-central1-a.",
    source="cloud.google.com/tpu/docs/request-using-flex-start (2025-08-19)",
)
def offers_flex_start(accelerator_type: str, zone: str) -> bool:
    """Return whether the zone offers flex-start for the type."""
    kind = accelerators.accelerator(accelerator_type)
    return zone in accelerators.generation_facts(kind.generation).flex_start_zones


@dataclass(frozen=True, slots=True)
class CapacityRequest:
    """The chips that a queued resource requests: the accelerator types of all its nodes, needed at the same time."""

    zone: str
    types: tuple[str, ...]
    is_reserved: bool

    def can_be_provisioned(self, has_room: Callable[[str, tuple[str, ...]], bool]) -> bool:
        """Return whether provisioning can begin now.

        A reserved request never waits: if its reservation has too few chips, it fails.
        """
        return self.is_reserved or has_room(self.zone, self.types)


def capacity_request(queued: QueuedRecord, extras: Mapping[str, Any]) -> CapacityRequest:
    """Return the chips that a queued resource requests."""
    wanted = wanted_nodes(queued.body, last_part(queued.name), extras)
    types = tuple(each.node.accelerator_type for each in wanted)
    return CapacityRequest(location_of(queued.name).zone, types, is_reserved(queued.body, extras))


@dataclass(frozen=True, slots=True)
class Interval:
    """The interval of virtual time in which a queued resource may be provisioned; None means no bound."""

    start: float | None = None
    end: float | None = None


def interval_of(policy: Any, now: float) -> Interval:
    """Return the interval in which a ``QueueingPolicy`` allows provisioning; `now` is the time of the request."""
    which = policy.WhichOneof("start_timing_constraints")
    if which is None:
        return Interval()
    value = getattr(policy, which)
    if which == "valid_interval":
        return Interval(_moment(value, "start_time"), _moment(value, "end_time"))
    moment = now + seconds_of(value) if which.endswith("duration") else moment_of(value)
    return Interval(end=moment) if which.startswith("valid_until") else Interval(start=moment)


def _moment(interval: Any, field: str) -> float | None:
    return moment_of(getattr(interval, field)) if interval.HasField(field) else None


def seconds_of(duration: Any) -> float:
    """Convert a ``Duration`` to seconds."""
    return float(duration.seconds) + float(duration.nanos) / 1e9


def moment_of(timestamp: Any) -> float:
    """Convert a ``Timestamp`` to seconds since the epoch."""
    return float(timestamp.seconds) + float(timestamp.nanos) / 1e9


@documented(
    "run-duration",
    "A flex-start node runs for at most 7 days; runDuration sets the duration or the end.",
    source="cloud.google.com/tpu/docs/request-using-flex-start; v2alpha1 discovery document, RunDuration",
)
@assumed("run-duration-default", "A flex-start node without a run duration runs for 7 days.")
def run_end(extras: Mapping[str, Any], active_since: float) -> float | None:
    """Return when a queued resource that became ACTIVE at `active_since` must end; None means never.

    Raises:
        Refusal: the run duration is malformed, or not between 0 and 7 days.
    """
    run_duration = extras.get("runDuration", {})
    ends = []
    if "maxRunDuration" in run_duration:
        ends.append(active_since + _checked_run(str(run_duration["maxRunDuration"])))
    if "terminationTime" in run_duration:
        ends.append(_parsed(timestamp_pb2.Timestamp(), str(run_duration["terminationTime"]), moment_of))
    if not ends and is_flex(extras):
        ends.append(active_since + LONGEST_RUN_S)
    # if both limits are set, the earlier one ends the run
    return min(ends, default=None)


@assumed("run-ends-ahead", "A run duration that ends in the past is refused.")
def check_run(extras: Mapping[str, Any], now: float) -> None:
    """Raise an error if the run duration of a new queued resource ends in the past."""
    ends = run_end(extras, now)
    if ends is not None and ends <= now:
        raise bad_field("queued_resource.run_duration", "termination_time must be in the future")


def _checked_run(text: str) -> float:
    seconds = _parsed(duration_pb2.Duration(), text, seconds_of)
    if not 0 < seconds <= LONGEST_RUN_S:
        raise bad_field("queued_resource.run_duration", "max_run_duration must be more than 0 and at most 7 days")
    return seconds


def _parsed(message: Any, text: str, value_of: Any) -> float:
    try:
        message.FromJsonString(text)
    except ValueError as error:
        raise bad_field("queued_resource.run_duration", f"{text[:40]!r} is not valid") from error
    value: float = value_of(message)
    return value if math.isfinite(value) else 0.0
