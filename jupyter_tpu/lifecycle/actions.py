"""What the performing loop is told to do: change something in the cloud, or look at it."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_tpu.models import NodeName, NodeSpec


@dataclass(frozen=True, slots=True)
class CreateNode:
    """Ask for a node."""

    spec: NodeSpec


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Ask for the deletion of a node."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class StopNode:
    """Ask to stop a node."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class StartNode:
    """Ask to start a node."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class GetNode:
    """Look at the node; answered by `NodeSeen`, `NodeMissing` or `Silent`."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class GetOperation:
    """Look at the operation; answered by `OperationSeen` or `Silent`."""

    operation: str


@dataclass(frozen=True, slots=True)
class GetWorkerIdentities:
    """Look for the workers' host keys; answered by `KeysSeen` or `Silent`."""

    name: NodeName


Change = CreateNode | DeleteNode | StopNode | StartNode
Look = GetNode | GetOperation | GetWorkerIdentities
