"""Perform what the lifecycle says: one call of the cloud per action, one event per answer."""

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
    Look,
    StartNode,
    StopNode,
)
from jupyter_tpu.lifecycle.events import (
    Asked,
    Event,
    KeysSeen,
    NodeMissing,
    NodeSeen,
    OperationSeen,
    Refused,
    Silent,
    Unanswered,
)
from jupyter_tpu.models import Node, Operation, WorkerIdentity

Clock = Callable[[], float]
"""Unix seconds."""


async def ask(cloud: CloudApi, change: Change, clock: Clock) -> Event:
    """Ask the cloud for a change; its answer as an event."""
    try:
        operation = await _asked(cloud, change)
    except CloudUnavailable as error:
        return Unanswered(at=clock(), error=error)
    except TpuError as error:
        return Refused(at=clock(), error=error)
    return Asked(at=clock(), operation=operation)


async def _asked(cloud: CloudApi, change: Change) -> Operation:
    match change:
        case CreateNode(spec):
            return await cloud.create_node(spec)
        case DeleteNode(name):
            return await cloud.delete_node(name)
        case StopNode(name):
            return await cloud.stop_node(name)
        case StartNode(name):
            return await cloud.start_node(name)


async def look(cloud: CloudApi, at_what: Look, clock: Clock) -> Event:
    """Look at something in the cloud; what was seen as an event."""
    try:
        return await _seen(cloud, at_what, clock)
    except NodeNotFound:
        return NodeMissing(at=clock())
    except TpuError as error:
        return Silent(at=clock(), error=error)


async def _seen(cloud: CloudApi, at_what: Look, clock: Clock) -> Event:
    match at_what:
        case GetNode(name):
            return NodeSeen(at=clock(), node=await cloud.get_node(name))
        case GetOperation(operation):
            return await _operation_seen(cloud, operation, clock)
        case GetWorkerIdentities(name):
            node = await cloud.get_node(name)
            identities = await cloud.get_worker_identities(name)
            return KeysSeen(at=clock(), node=node, published=_are_published(node, identities))


async def _operation_seen(cloud: CloudApi, name: str, clock: Clock) -> Event:
    try:
        return OperationSeen(at=clock(), operation=await cloud.get_operation(name))
    except NodeNotFound as error:  # the cloud has forgotten the operation; the node decides
        return Silent(at=clock(), error=error)


def _are_published(node: Node, identities: tuple[WorkerIdentity, ...]) -> bool:
    """Whether every worker of the node has shown a host key."""
    with_keys = [identity for identity in identities if identity.host_keys]
    return bool(node.workers) and len(with_keys) >= len(node.workers)
