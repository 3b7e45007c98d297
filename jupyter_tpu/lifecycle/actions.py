"""The actions of the fleet's loop for an intent: requests that change something in the cloud, and reads."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_tpu.models import NodeName, NodeSpec


@dataclass(frozen=True, slots=True)
class CreateNode:
    """Request the creation of a node."""

    spec: NodeSpec


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Request the deletion of a node."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class StopNode:
    """Request to stop a node."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class StartNode:
    """Request to start a stopped node."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class GetNode:
    """Read the node; answered by `NodeSeen`, `NodeMissing` or `NoAnswer`."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class GetOperation:
    """Read the operation; answered by `OperationSeen` or `NoAnswer`."""

    operation: str


@dataclass(frozen=True, slots=True)
class GetWorkerIdentities:
    """Read the workers' published host keys; answered by `KeysSeen` or `NoAnswer`."""

    name: NodeName


Change = CreateNode | DeleteNode | StopNode | StartNode
Query = GetNode | GetOperation | GetWorkerIdentities
