"""Convert messages of the Cloud TPU API to our records and back.

The functions read bare protobuf messages, because Google's wrapper warns about unknown states and drops them in JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.cloud import tpu_v2
from google.longrunning import operations_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from jupyter_tpu.cloud.refusal_records import Request
from jupyter_tpu.cloud.translation import error_of_status
from jupyter_tpu.errors import plain
from jupyter_tpu.models import Node, NodeName, NodeOptions, NodeSpec, Operation, Worker, WorkerIdentity


def node_of(message: Any) -> Node:
    """Convert a bare ``Node`` message to our record."""
    config = message.accelerator_config
    scheduling = message.scheduling_config
    workers = _workers_of(message)
    # Sanitize texts with `plain`: they are shown in terminals, and other people's nodes may contain anything.
    return Node(
        name=NodeName.parse(message.name),
        state=enum_name(tpu_v2.Node.State, message.state),
        health=enum_name(tpu_v2.Node.Health, message.health) if message.health else "",
        health_description=plain(message.health_description),
        accelerator_type=plain(message.accelerator_type, 100),
        topology=plain(config.topology, 100),
        runtime_version=plain(message.runtime_version, 200),
        spot=scheduling.spot,
        preemptible=scheduling.preemptible,
        reserved=scheduling.reserved,
        options=NodeOptions(
            # no worker has an external address: the node was created without external addresses
            internal_ips=bool(workers) and not any(worker.external_ip for worker in workers),
        ),
        uid=str(message.id) if message.id else "",
        create_time=timestamp(message.create_time) if message.HasField("create_time") else "",
        workers=workers,
        labels=dict(message.labels),
        metadata=dict(message.metadata),
        description=plain(message.description),
    )


def enum_name(enum: Any, value: int) -> str:
    """Return the API's name of an enum value, or ``UNKNOWN(17)`` for a value newer than the client."""
    return next((member.name for member in enum if member.value == value), f"UNKNOWN({value})")


def timestamp(stamp: Timestamp) -> str:
    """Return a timestamp in RFC 3339 format, in UTC."""
    return str(stamp.ToJsonString())


def _workers_of(message: Any) -> tuple[Worker, ...]:
    # A node with several network configs lists one endpoint per network for each worker, worker by worker.
    networks = max(1, len(message.network_configs))
    first_of_each = message.network_endpoints[::networks]
    return tuple(
        Worker(
            worker_id=worker_id,
            ip_address=endpoint.ip_address,
            external_ip=endpoint.access_config.external_ip,
        )
        for worker_id, endpoint in enumerate(first_of_each)
    )


def node_to_create(spec: NodeSpec) -> tpu_v2.Node:
    """Build the message that creates a node, with external addresses for SSH unless disabled in the request."""
    return tpu_v2.Node(
        accelerator_type=spec.accelerator_type,
        runtime_version=spec.runtime_version,
        labels=dict(spec.labels),
        metadata=dict(spec.metadata),
        scheduling_config=tpu_v2.SchedulingConfig(spot=spec.spot, preemptible=spec.preemptible, reserved=spec.reserved),
        network_config=tpu_v2.NetworkConfig(enable_external_ips=not spec.options.internal_ips),
    )


def operation_of(message: operations_pb2.Operation, request: Request) -> Operation:
    """Convert an operation. If it failed, the error message names `request`."""
    metadata = tpu_v2.OperationMetadata.pb(tpu_v2.OperationMetadata())
    # A newer API may send metadata of another type. Verb and target are then empty.
    if message.metadata.Is(metadata.DESCRIPTOR):
        message.metadata.Unpack(metadata)
    failed = message.WhichOneof("result") == "error"
    return Operation(
        name=message.name,
        verb=metadata.verb,
        target=metadata.target,
        done=message.done,
        error=error_of_status(request, message.error) if failed else None,
        created_at=_moment(metadata, "create_time"),
        ended_at=_moment(metadata, "end_time"),
    )


def _moment(metadata: Any, field: str) -> float | None:
    """Return a timestamp field in Unix seconds, or None if it is not set."""
    stamp = getattr(metadata, field)
    return stamp.seconds + stamp.nanos / 1e9 if metadata.HasField(field) else None


def identities_of(workers: Iterable[Any], *, is_emulated: bool) -> tuple[WorkerIdentity, ...]:
    """Convert a node's ``GuestAttributes`` messages, one per worker, ordered by worker number."""
    return tuple(_identity_of(worker_id, each, is_emulated) for worker_id, each in enumerate(workers))


def _identity_of(worker_id: int, attributes: Any, is_emulated: bool) -> WorkerIdentity:
    items = {(item.namespace.lower(), item.key.lower()): item.value for item in attributes.query_value.items}
    keys = sorted((key, value) for (namespace, key), value in items.items() if namespace == "hostkeys" and value)
    return WorkerIdentity(
        worker_id=worker_id,
        host_keys=tuple(f"{kind} {blob.strip()}" for kind, blob in keys),
        hostname=plain(items.get(("guestinventory", "hostname"), ""), 253),
        # Always use port 22 on a real VM, where any process can write guest attributes and any user can listen on a
        # high port.
        ssh_port=_port(items.get(("emulator", "ssh-port"), "")) if is_emulated else 22,
    )


def _port(text: str) -> int:
    return int(text) if text.isdecimal() and 0 < int(text) < 65536 else 22
