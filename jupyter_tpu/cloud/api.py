"""The interface of a cloud for the rest of the product."""

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

    Every method raises only errors of `jupyter_tpu.errors`, with the cloud's own message in ``raw``. Reads are retried
    if the cloud does not answer. Changes are sent once, and `CloudUnavailable` then means that the outcome is unknown.
    """

    @property
    def settings(self) -> CloudSettings:
        """The settings in force, with the project filled in."""
        ...

    @property
    def clock(self) -> CloudClock:
        """The cloud's time, learned from the dates of its answers."""
        ...

    async def list_nodes(self, zone: str = "-") -> NodeList:
        """List the nodes of one zone, or of all (``-``); `NodeList.unreachable` names the zones that are missing."""
        ...

    async def get_node(self, name: NodeName) -> Node:
        """Return one node; raises `NodeNotFound`."""
        ...

    async def create_node(self, spec: NodeSpec) -> Operation:
        """Create a node; a stock-out fails the operation later, a lack of quota or permission raises at once."""
        ...

    async def delete_node(self, name: NodeName) -> Operation:
        """Delete a node."""
        ...

    async def stop_node(self, name: NodeName) -> Operation:
        """Stop a READY node; its disk is kept."""
        ...

    async def start_node(self, name: NodeName) -> Operation:
        """Start a STOPPED node, which may fail with a stock-out like a creation."""
        ...

    async def update_node_metadata(self, name: NodeName, metadata: Mapping[str, str]) -> Operation:
        """Set these keys of the node's metadata and keep all others, although the API replaces the map as a whole."""
        ...

    async def get_operation(self, name: str) -> Operation:
        """Return the current state of an operation; its failure is in ``error``, not raised."""
        ...

    async def list_operations(self, zone: str) -> tuple[Operation, ...]:
        """List the operations of one zone that the cloud still has, by any client, failed ones included."""
        ...

    async def list_zones(self) -> tuple[str, ...]:
        """Return the zones of the Cloud TPU API that the project can see, sorted."""
        ...

    async def list_accelerator_types(self, zone: str) -> tuple[str, ...]:
        """Return the names of the accelerator types offered in a zone."""
        ...

    async def list_runtime_versions(self, zone: str) -> tuple[str, ...]:
        """Return the names of the runtime versions offered in a zone."""
        ...

    async def get_worker_identities(self, name: NodeName) -> tuple[WorkerIdentity, ...]:
        """Return what each worker has published about its SSH server; ``host_keys`` is empty before that."""
        ...

    async def list_queued_resources(self, zone: str = "-") -> QueuedList:
        """List the queued resources of one zone, or of all (``-``), including leftovers that wait for deletion."""
        ...

    async def create_queued_resource(
        self, spec: QueuedSpec, valid_for_s: float | None = None, *, run_for_s: float | None = None
    ) -> Operation:
        """Queue a request for a node. Safe to repeat: the same request is queued only once.

        Args:
            valid_for_s: seconds without capacity after which the cloud gives up; None: never.
            run_for_s: flex-start: seconds after READY at which the cloud deletes the node.
        """
        ...

    async def delete_queued_resource(self, name: QueuedName, *, force: bool = False) -> Operation:
        """Delete a queued resource; if it has nodes, `force` is needed, which deletes them too."""
        ...

    async def aclose(self) -> None:
        """Close the connection; further calls fail."""
        ...
