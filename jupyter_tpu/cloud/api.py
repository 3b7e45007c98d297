"""The interface through which the product's other packages use a cloud."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from jupyter_tpu.cloud.cloud_clock import CloudClock
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.models import (
    Node,
    NodeList,
    NodeName,
    NodeSpec,
    Operation,
    QueuedList,
    QueuedName,
    QueuedSpec,
    WorkerIdentity,
)


class CloudApi(Protocol):
    """The Cloud TPU API with our own records and errors.

    Every method raises only errors from `jupyter_tpu.errors`, with the cloud's own message in ``raw``. Reads are
    retried if the cloud doesn't respond. Changes are sent only once, and `CloudUnavailable` then means that the outcome
    is unknown.
    """

    @property
    def settings(self) -> CloudSettings:
        """The current settings, with the project filled in."""
        ...

    @property
    def clock(self) -> CloudClock:
        """The cloud's clock, set from the dates in the cloud's responses."""
        ...

    async def list_nodes(self, zone: str = "-") -> NodeList:
        """List the nodes of one zone, or of all (``-``); `NodeList.unreachable` lists the missing zones."""
        ...

    async def get_node(self, name: NodeName) -> Node:
        """Return one node; raise `NodeNotFound` if it doesn't exist."""
        ...

    async def create_node(self, spec: NodeSpec) -> Operation:
        """Create a node. Missing quota or permission raises an error; a stock-out makes the operation fail later."""
        ...

    async def delete_node(self, name: NodeName) -> Operation:
        """Delete a node."""
        ...

    async def stop_node(self, name: NodeName) -> Operation:
        """Stop a READY node; its disk is kept."""
        ...

    async def start_node(self, name: NodeName) -> Operation:
        """Start a STOPPED node; like a creation, this may fail with a stock-out."""
        ...

    async def update_node_metadata(self, name: NodeName, metadata: Mapping[str, str]) -> Operation:
        """Set the given keys of the node's metadata. Other keys are kept, although the API replaces the whole map."""
        ...

    async def get_operation(self, name: str) -> Operation:
        """Return the current state of an operation; if it failed, ``error`` is set and nothing is raised."""
        ...

    async def list_operations(self, zone: str) -> tuple[Operation, ...]:
        """List the operations that the cloud still stores for a zone, including those that failed.

        The list also contains the operations of other clients.
        """
        ...

    async def list_zones(self) -> tuple[str, ...]:
        """Return the project's zones in the Cloud TPU API, sorted."""
        ...

    async def list_accelerator_types(self, zone: str) -> tuple[str, ...]:
        """Return the names of the accelerator types offered in a zone."""
        ...

    async def list_runtime_versions(self, zone: str) -> tuple[str, ...]:
        """Return the names of the runtime versions offered in a zone."""
        ...

    async def get_worker_identities(self, name: NodeName) -> tuple[WorkerIdentity, ...]:
        """Return each worker's published SSH details; ``host_keys`` is empty until they are published."""
        ...

    async def list_queued_resources(self, zone: str = "-") -> QueuedList:
        """List the queued resources of one zone, or of all (``-``), including leftovers waiting for deletion."""
        ...

    async def create_queued_resource(
        self, spec: QueuedSpec, valid_for_s: float | None = None, *, run_for_s: float | None = None
    ) -> Operation:
        """Queue a request for a node. The call is safe to repeat, because the same request is queued only once.

        Args:
            valid_for_s: seconds without capacity after which the cloud gives up; None for no limit.
            run_for_s: for flex-start, seconds after READY at which the cloud deletes the node.
        """
        ...

    async def delete_queued_resource(self, name: QueuedName, *, force: bool = False) -> Operation:
        """Delete a queued resource; if it has nodes, `force` is required and deletes them too."""
        ...

    async def aclose(self) -> None:
        """Close the connection; further calls fail."""
        ...
