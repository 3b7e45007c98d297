"""What one worker may know of itself and of its node: the ground of what its metadata server tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from jupyter_tpu.emulator.access.access_tokens import CLOUD_PLATFORM
from jupyter_tpu.emulator.resources.behaviours import documented
from jupyter_tpu.emulator.resources.protos import NodePb

GuestAttributes = Mapping[str, Mapping[str, str]]
"""Namespace → key → value, as processes of the worker have put them."""


class NodeStore(Protocol):
    def node(self, name: str) -> NodePb | None: ...


class Notices(Protocol):
    def is_given(self, node: NodePb) -> bool:
        """Whether the node was told that it will be taken away."""


class CloudFacts(Protocol):
    """What workers ask of the cloud that they belong to."""

    project: str
    project_number: str

    @property
    def store(self) -> NodeStore: ...

    @property
    def notices(self) -> Notices: ...

    def extras_of(self, name: str) -> Mapping[str, Any]:
        """What v2's protobuf has no field for, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """One worker at one moment.

    Attributes:
        node: the node as it is now.
        upcoming_maintenance: as in the API's JSON; None when none was announced.
        is_preempted: the node will be taken away in a moment.
        metrics_port: where the worker's runtime metrics are served while a process has its chips.
    """

    node: NodePb
    worker_id: int
    hostname: str
    project: str
    project_number: str
    project_attributes: Mapping[str, str] = field(default_factory=dict)
    metrics_port: int = 0
    is_preempted: bool = False
    upcoming_maintenance: Mapping[str, Any] | None = None
    guest_attributes: GuestAttributes = field(default_factory=dict)

    @property
    def zone(self) -> str:
        return str(self.node.name.split("/")[3])

    @property
    def node_id(self) -> str:
        return str(self.node.name.rpartition("/")[2])

    @property
    def instance_id(self) -> int:
        """Of the VM: each worker has its own."""
        return int(self.node.id) + self.worker_id

    @property
    def email(self) -> str:
        return str(self.node.service_account.email)

    @property
    @documented(
        "default-scopes",
        "The service account of a node that names no scopes has access to all Cloud APIs.",
        source="google-cloud-tpu 1.28.0, ServiceAccount.scope",
    )
    def scopes(self) -> list[str]:
        return list(self.node.service_account.scope) or [CLOUD_PLATFORM]
