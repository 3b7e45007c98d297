"""The actions that the fleet performs for an intent: requests that change cloud resources, and queries."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_tpu.models import NodeName, NodeSpec


@dataclass(frozen=True, slots=True)
class CreateNode:
    """A request to create a node."""

    spec: NodeSpec


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """A request to delete a node."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class StopNode:
    """A request to stop a node."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class StartNode:
    """A request to start a stopped node."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class GetNode:
    """An action that reads a node. The resulting event is `NodeSeen`, `NodeMissing` or `NoAnswer`."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class GetOperation:
    """An action that reads an operation. The resulting event is `OperationSeen` or `NoAnswer`."""

    operation: str


@dataclass(frozen=True, slots=True)
class GetWorkerIdentities:
    """A query for the workers' published host keys. It results in `KeysSeen` or `NoAnswer`."""

    name: NodeName


Change = CreateNode | DeleteNode | StopNode | StartNode
Query = GetNode | GetOperation | GetWorkerIdentities
