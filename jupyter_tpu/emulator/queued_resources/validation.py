"""Validate a request for a queued resource before anything is created."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from jupyter_tpu.emulator.nodes.validation import check_new_node, check_node_id
from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.resources.errors import bad_field
from jupyter_tpu.emulator.resources.names import Location

_ID = re.compile(r"[A-Za-z0-9_.~+%-]{1,63}")
MOST_NODES = 256  # assumed (behaviour `node-spec-parent`); bounds the nodes of one request


@documented(
    "queued-resource-id",
    "The id of a queued resource matches ^[A-Za-z0-9_.~+%-]+$.",
    source="google-cloud-tpu, CreateQueuedResourceRequest.queued_resource_id",
)
@assumed("queued-resource-id-length", "The id of a queued resource has at most 63 characters.")
def check_queued_resource_id(queued_resource_id: str) -> None:
    """Raise an error if the id of a queued resource is invalid."""
    if not _ID.fullmatch(queued_resource_id):
        raise bad_field(
            "queued_resource_id", f"queued_resource_id {queued_resource_id[:80]!r} must match ^[A-Za-z0-9_.~+%-]+$"
        )


def check_queued_resource(queued: Any, location: Location, now: float) -> None:
    """Check the body of a queued resource, except the names of its nodes (`check_node_ids`).

    Args:
        queued: a raw v2 ``QueuedResource``.
        location: the zone of the request, which must also be the zone of its nodes.
        now: virtual time.
    """
    if not queued.tpu.node_spec:
        raise bad_field("queued_resource.tpu.node_spec", "at least one node_spec must be set")
    for spec in queued.tpu.node_spec:
        check_node_spec(spec, location)
    check_policy(queued.queueing_policy, now)
    check_guarantee(queued)


@assumed("guaranteed-duration", "A guaranteed duration cannot be negative.")
def check_guarantee(queued: Any) -> None:
    """Raise an error if the guaranteed duration is negative."""
    if queued.guaranteed.min_duration.ToNanoseconds() < 0:
        raise bad_field("queued_resource.guaranteed.min_duration", "min_duration must not be negative")


@documented(
    "node-spec-name",
    "A node_spec has either a node_id or multislice_params with a node_count greater than 1.",
    source="google-cloud-tpu, QueuedResource.Tpu.NodeSpec",
)
@assumed(
    "node-spec-parent",
    "The parent of a node_spec is the location of the queued resource, and can be omitted; a node_spec has at "
    "most 256 nodes.",
)
def check_node_spec(spec: Any, location: Location) -> None:
    """Raise an error for a ``NodeSpec`` with a wrong zone, no name, too many nodes, or an invalid node."""
    field = "queued_resource.tpu.node_spec"
    if spec.parent not in ("", str(location)):
        raise bad_field(f"{field}.parent", f"parent {spec.parent[:120]!r} must be {location}")
    name_strategy = spec.WhichOneof("name_strategy")
    if name_strategy is None:
        raise bad_field(f"{field}.node_id", "node_id or multislice_params must be set")
    if name_strategy == "multislice_params" and not 1 < spec.multislice_params.node_count <= MOST_NODES:
        raise bad_field(f"{field}.multislice_params.node_count", f"node_count must be 2 to {MOST_NODES}")
    check_new_node(spec.node, location.zone)


def check_node_ids(ids: Iterable[str]) -> None:
    """Raise an error if the id of a requested node is invalid or is used twice in the queued resource."""
    known: set[str] = set()
    for node_id in ids:
        check_node_id(node_id)
        if node_id in known:
            raise bad_field("queued_resource.tpu.node_spec.node_id", f"node_id {node_id!r} is used twice")
        known.add(node_id)


@assumed(
    "queueing-policy",
    "In a queueing policy, durations must be positive, times must be in the future, and an interval must end "
    "after it starts.",
)
def check_policy(policy: Any, now: float) -> None:
    """Raise an error if the time interval in the `QueueingPolicy` is over or empty."""
    field = "queued_resource.queueing_policy"
    chosen = policy.WhichOneof("start_timing_constraints")
    if chosen in ("valid_until_duration", "valid_after_duration") and getattr(policy, chosen).ToNanoseconds() <= 0:
        raise bad_field(f"{field}.{chosen}", f"{chosen} must be positive")
    # only end times must be in the future: a request may be valid from a time in the past
    if chosen == "valid_until_time" and policy.valid_until_time.ToNanoseconds() <= now * 1e9:
        raise bad_field(f"{field}.{chosen}", "valid_until_time must be in the future")
    if chosen == "valid_interval":
        interval = policy.valid_interval
        if interval.end_time.ToNanoseconds() <= max(interval.start_time.ToNanoseconds(), now * 1e9):
            raise bad_field(f"{field}.{chosen}", "valid_interval must end after it starts, and in the future")
