"""The actions that the fleet performs for an intent: requests that change cloud resources, and reads."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_tpu.models import NodeName, NodeSpec


@dataclass(frozen=True, slots=True)
class CreateNode:
    """The request to create a node."""

    spec: NodeSpec


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """The request to delete a node."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class StopNode:
    """The request to stop a node."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class StartNode:
    """The request to start a stopped node."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class GetNode:
    """The read of a node; results in `NodeSeen`, `NodeMissing` or `NoAnswer`."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class GetOperation:
    """The read of an operation; results in `OperationSeen` or `NoAnswer`."""

    operation: str


@dataclass(frozen=True, slots=True)
class GetWorkerIdentities:
    """The read of the workers' published host keys; results in `KeysSeen` or `NoAnswer`."""

    name: NodeName


Change = CreateNode | DeleteNode | StopNode | StartNode
Query = GetNode | GetOperation | GetWorkerIdentities
