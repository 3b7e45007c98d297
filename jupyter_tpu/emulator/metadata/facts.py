"""The data for one worker's metadata server, about the worker, its node and its project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from jupyter_tpu.emulator.access.access_tokens import CLOUD_PLATFORM
from jupyter_tpu.emulator.resources.behaviours import documented
from jupyter_tpu.emulator.resources.protos import NodePb

GuestAttributes = Mapping[str, Mapping[str, str]]
"""Values of guest attributes by namespace and key, as published by the worker's processes."""


class NodeStore(Protocol):
    """The store's methods that workers need."""

    def node(self, name: str) -> NodePb | None:
        """Return the node with this full name, or None."""


class Notices(Protocol):
    """The pre-emption notices of the nodes."""

    def is_announced(self, node: NodePb) -> bool:
        """Return whether the node has a notice of pre-emption."""


class CloudFacts(Protocol):
    """The part of the emulated cloud that the metadata servers of its workers use."""

    project: str
    project_number: str

    @property
    def store(self) -> NodeStore:
        """The store of nodes."""

    @property
    def notices(self) -> Notices:
        """The notices of pre-emption."""

    def extras_of(self, name: str) -> Mapping[str, Any]:
        """Return the fields of a resource that v2's protobuf lacks, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """Data of one worker at one time.

    Attributes:
        node: the node's current state.
        upcoming_maintenance: the announced maintenance as in the API's JSON, or None.
        is_preempted: whether the node's pre-emption was announced and will happen soon.
        metrics_port: port on which the worker's runtime metrics are served while a process uses its chips.
    """

    node: NodePb
    worker_id: int
    hostname: str
    project: str
    project_number: str
    metrics_port: int = 0
    is_preempted: bool = False
    upcoming_maintenance: Mapping[str, Any] | None = None
    guest_attributes: GuestAttributes = field(default_factory=dict)

    @property
    def zone(self) -> str:
        """The zone of the node."""
        return str(self.node.name.split("/")[3])

    @property
    def node_id(self) -> str:
        """The id of the node."""
        return str(self.node.name.rpartition("/")[2])

    @property
    def instance_id(self) -> int:
        """The id of the worker's VM."""
        # the API assigns one number per node, but each VM needs its own
        return int(self.node.id) + self.worker_id

    @property
    def email(self) -> str:
        """The email address of the node's service account."""
        return str(self.node.service_account.email)

    @property
    @documented(
        "default-scopes",
        "If a node has no scopes, its service account has access to all Cloud APIs.",
        source="google-cloud-tpu 1.28.0, ServiceAccount.scope",
    )
    def scopes(self) -> list[str]:
        """The scopes of the service account."""
        return list(self.node.service_account.scope) or [CLOUD_PLATFORM]
