"""Perform the lifecycle's actions: one call to the cloud per action, one event per response."""

from __future__ import annotations

from collections.abc import Callable

from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.errors import CloudUnavailable, NodeNotFound, TpuError
from jupyter_tpu.lifecycle.actions import (
    Change,
    CreateNode,
    DeleteNode,
    GetNode,
    GetOperation,
    GetWorkerIdentities,
    Query,
    StartNode,
    StopNode,
)
from jupyter_tpu.lifecycle.intent_events import (
    Accepted,
    Event,
    KeysSeen,
    NoAnswer,
    NodeMissing,
    NodeSeen,
    OperationSeen,
    Refused,
    Unanswered,
)
from jupyter_tpu.models import Node, Operation, WorkerIdentity

Clock = Callable[[], float]
"""A function that returns Unix seconds."""


async def send(cloud: CloudApi, change: Change, clock: Clock) -> Event:
    """Send a request that changes a resource in the cloud; return the outcome as an event."""
    try:
        operation = await _send(cloud, change)
    except CloudUnavailable as error:  # the cloud may have performed the request
        return Unanswered(at=clock(), error=error)
    except TpuError as error:
        return Refused(at=clock(), error=error)
    return Accepted(at=clock(), operation=operation)


async def _send(cloud: CloudApi, change: Change) -> Operation:
    match change:
        case CreateNode(spec):
            return await cloud.create_node(spec)
        case DeleteNode(name):
            return await cloud.delete_node(name)
        case StopNode(name):
            return await cloud.stop_node(name)
        case StartNode(name):
            return await cloud.start_node(name)


async def read(cloud: CloudApi, query: Query, clock: Clock) -> Event:
    """Send a request that only reads; return the response as an event."""
    try:
        return await _read(cloud, query, clock)
    except NodeNotFound:
        return NodeMissing(at=clock())
    except TpuError as error:
        return NoAnswer(at=clock(), error=error)


async def _read(cloud: CloudApi, query: Query, clock: Clock) -> Event:
    match query:
        case GetNode(name):
            return NodeSeen(at=clock(), node=await cloud.get_node(name))
        case GetOperation(operation):
            return await _read_operation(cloud, operation, clock)
        case GetWorkerIdentities(name):
            # read the node too, because each of its workers must have a key
            node = await cloud.get_node(name)
            identities = await cloud.get_worker_identities(name)
            return KeysSeen(at=clock(), node=node, published=_are_published(node, identities))


async def _read_operation(cloud: CloudApi, name: str, clock: Clock) -> Event:
    try:
        return OperationSeen(at=clock(), operation=await cloud.get_operation(name))
    except NodeNotFound as error:  # the cloud no longer has the operation, so check the node
        return NoAnswer(at=clock(), error=error)


def _are_published(node: Node, identities: tuple[WorkerIdentity, ...]) -> bool:
    """Return whether every worker of the node has published a host key."""
    with_keys = [identity for identity in identities if identity.host_keys]
    return bool(node.workers) and len(with_keys) >= len(node.workers)
