"""The actions of the fleet's loop for an intent: cloud requests that change resources, and reads."""

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
    """Read the node; results in `NodeSeen`, `NodeMissing` or `NoAnswer`."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class GetOperation:
    """Read the operation; results in `OperationSeen` or `NoAnswer`."""

    operation: str


@dataclass(frozen=True, slots=True)
class GetWorkerIdentities:
    """Read the workers' published host keys; results in `KeysSeen` or `NoAnswer`."""

    name: NodeName


Change = CreateNode | DeleteNode | StopNode | StartNode
Query = GetNode | GetOperation | GetWorkerIdentities
