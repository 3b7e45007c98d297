"""What the rest of the package may ask of a cloud."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from jupyter_tpu.cloud.clock import CloudClock
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
    """The Cloud TPU API in our own words.

    Every method raises only errors of `jupyter_tpu.errors`, with the cloud's own words in ``raw``. Reads are retried
    when the cloud does not answer; what changes something is asked once, and `CloudUnavailable` then means that the
    outcome is unknown.
    """

    @property
    def settings(self) -> CloudSettings:
        """The settings in force, with the project filled in."""
        ...

    @property
    def clock(self) -> CloudClock:
        """The cloud's time, as its answers tell it."""
        ...

    async def list_nodes(self, zone: str = "-") -> NodeList:
        """Nodes of one zone, or of all (``-``). `NodeList.unreachable` names what is missing from it."""
        ...

    async def get_node(self, name: NodeName) -> Node:
        """One node; raises `NodeNotFound`."""
        ...

    async def create_node(self, spec: NodeSpec) -> Operation:
        """Ask for a node. A stock-out is told later, in the operation; quota and permission at once."""
        ...

    async def delete_node(self, name: NodeName) -> Operation:
        """Ask for the deletion of a node."""
        ...

    async def stop_node(self, name: NodeName) -> Operation:
        """Ask to stop a READY node; its disk is kept."""
        ...

    async def start_node(self, name: NodeName) -> Operation:
        """Ask to start a STOPPED node; may stock out like a creation."""
        ...

    async def update_node_metadata(self, name: NodeName, metadata: Mapping[str, str]) -> Operation:
        """Set these keys of the node's metadata and keep all others (the API replaces the map as a whole)."""
        ...

    async def get_operation(self, name: str) -> Operation:
        """The present state of an operation; its failure is in ``error``, not raised."""
        ...

    async def list_operations(self, zone: str) -> tuple[Operation, ...]:
        """Operations of one zone that the cloud still knows of, whoever asked for them; the failed ones too."""
        ...

    async def list_zones(self) -> tuple[str, ...]:
        """Zones where the project may look for TPUs, sorted."""
        ...

    async def list_accelerator_types(self, zone: str) -> tuple[str, ...]:
        """Names of the accelerator types offered in a zone."""
        ...

    async def list_runtime_versions(self, zone: str) -> tuple[str, ...]:
        """Names of the runtime versions offered in a zone."""
        ...

    async def get_worker_identities(self, name: NodeName) -> tuple[WorkerIdentity, ...]:
        """What each worker has published of its SSH server; ``host_keys`` is empty until it has."""
        ...

    async def list_queued_resources(self, zone: str = "-") -> QueuedList:
        """Queued resources of one zone, or of all (``-``); husks too, until somebody deletes them."""
        ...

    async def create_queued_resource(
        self, spec: QueuedSpec, valid_for_s: float | None = None, *, run_for_s: float | None = None
    ) -> Operation:
        """Queue a node; the cloud gives up after `valid_for_s`. May be asked again: the same wish is queued once.

        With `run_for_s` (flex-start) the cloud itself deletes the node so many seconds after it became READY.
        """
        ...

    async def delete_queued_resource(self, name: QueuedName, *, force: bool = False) -> Operation:
        """Ask for the deletion of a queued resource; only by `force` when it has nodes, which are deleted as well."""
        ...

    async def aclose(self) -> None:
        """Close the connection; further calls fail."""
        ...
