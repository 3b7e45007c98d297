"""Records that travel between the parts of jupyter_tpu.

Frozen values with `to_json` where they leave the process. Knows nothing of clouds, SSH or Jupyter, and runs on the
worker as well (Python 3.10, standard library only).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jupyter_tpu.errors import BadInput, TpuError
from jupyter_tpu.provisioning import Provisioning, check_flags, provisioning_of

# The API's own rule for node ids [INF: no recorded refusal]; also what keeps names harmless in shells, paths and HTML.
_NODE_ID = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_PROJECT = re.compile(r"[a-z0-9][-a-z0-9.:]{2,62}")
_ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z0-9]{1,8}")
_FULL_NAME = re.compile(r"projects/([^/]+)/locations/([^/]+)/nodes/([^/]+)")
# google-cloud-tpu, CreateQueuedResourceRequest.queued_resource_id
_QUEUED_ID = re.compile(r"[A-Za-z0-9_.~+%-]{1,63}")
_QUEUED_NAME = re.compile(r"projects/([^/]+)/locations/([^/]+)/queuedResources/([^/]+)")

INTENT_LABEL = "jupyter-tpu-intent"
"""Label that every node we create carries; its value is the id of the intent in the journal."""


def _checked(pattern: re.Pattern[str], value: str, what: str, rule: str) -> str:
    if not pattern.fullmatch(value):
        shown = value if len(value) <= 70 else value[:70] + "…"
        raise BadInput(f"{shown!r} is not a valid {what}.", exists="The cloud was not asked.", hint=f"Use {rule}.")
    return value


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class NodeName:
    """Where a node lives: ``projects/{project}/locations/{zone}/nodes/{node_id}``.

    Raises:
        BadInput: a part breaks the API's rule for it.
    """

    project: str
    zone: str
    node_id: str

    def __post_init__(self) -> None:
        _checked(_PROJECT, self.project, "project id", "3 to 63 lower-case letters, digits and hyphens")
        _checked(_ZONE, self.zone, "zone", "a zone name such as us-central1-a")
        _checked(
            _NODE_ID,
            self.node_id,
            "node name",
            "1 to 63 lower-case letters, digits and hyphens, starting with a letter, not ending with a hyphen",
        )

    @classmethod
    def parse(cls, full_name: str) -> NodeName:
        match = _FULL_NAME.fullmatch(full_name)
        if not match:
            raise BadInput(
                f"{full_name[:200]!r} is not a node name.", hint="Use projects/PROJECT/locations/ZONE/nodes/NODE."
            )
        return cls(project=match[1], zone=match[2], node_id=match[3])

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.zone}"

    def __str__(self) -> str:
        return f"{self.parent}/nodes/{self.node_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One TPU VM of a node. `external_ip` is empty where the VM has none."""

    worker_id: int
    ip_address: str = ""
    external_ip: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"worker_id": self.worker_id, "ip_address": self.ip_address, "external_ip": self.external_ip}


_NOT_BILLED = frozenset(
    {
        "",  # there is no such node
        "CREATING",
        "STARTING",
        "RESTARTING",
        "REIMAGING",
        "REPAIRING",
        "STOPPING",
        "STOPPED",
        "PREEMPTED",
        "TERMINATED",
        "DELETING",
    }
)
"""States of a node that does not cost by the hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as the cloud shows it.

    Attributes:
        state: the API's word, such as ``READY``; a value this client does not know is kept as ``UNKNOWN(17)``.
        health: the API's word; empty while the cloud has not said.
        uid: the API's ``id``, a number in decimal; differs when a node is recreated under the same name.
        create_time: RFC 3339 in UTC, or empty.
    """

    name: NodeName
    state: str
    health: str = ""
    health_description: str = ""
    accelerator_type: str = ""
    topology: str = ""
    runtime_version: str = ""
    spot: bool = False
    preemptible: bool = False
    reserved: bool = False
    uid: str = ""
    create_time: str = ""
    workers: tuple[Worker, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    description: str = ""

    @property
    def intent_id(self) -> str:
        """The intent that made this node, or empty when it was made elsewhere."""
        return self.labels.get(INTENT_LABEL, "")

    @property
    def provisioning(self) -> Provisioning:
        """On which terms it was asked for; flex-start only where we asked for it."""
        return provisioning_of(self)

    @property
    def is_billed(self) -> bool:
        """Whether it costs by the hour: READY (cloud.google.com/tpu/pricing), or in a state that we cannot judge.

        A READY node that the cloud suddenly describes by a new word goes on costing; taken for ended, nobody would
        count or stop it.
        """
        return self.state not in _NOT_BILLED


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """What to create, on one of several terms, see `jupyter_tpu.provisioning`.

    Attributes:
        internal_ips: the workers get no external IP addresses; SSH then needs a machine in the node's network.
    """

    name: NodeName
    accelerator_type: str
    runtime_version: str
    spot: bool = False
    preemptible: bool = False
    reserved: bool = False
    internal_ips: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_flags(spot=self.spot, preemptible=self.preemptible, reserved=self.reserved)

    @property
    def provisioning(self) -> Provisioning:
        return provisioning_of(self)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": str(self.name),
            "accelerator_type": self.accelerator_type,
            "runtime_version": self.runtime_version,
            "spot": self.spot,
            "preemptible": self.preemptible,
            "reserved": self.reserved,
            "internal_ips": self.internal_ips,
            "labels": dict(self.labels),
            "metadata": dict(self.metadata),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NodeSpec:
        return cls(
            name=NodeName.parse(data["name"]),
            accelerator_type=data["accelerator_type"],
            runtime_version=data["runtime_version"],
            spot=data["spot"],
            preemptible=data.get("preemptible", False),
            reserved=data.get("reserved", False),
            internal_ips=data.get("internal_ips", False),
            labels=dict(data["labels"]),
            metadata=dict(data["metadata"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeList:
    """The nodes of a project; `unreachable` names zones that did not answer, so the list is partial."""

    nodes: tuple[Node, ...]
    unreachable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class QueuedName:
    """Where a queued resource lives: ``projects/{project}/locations/{zone}/queuedResources/{queued_id}``.

    Raises:
        BadInput: a part breaks the API's rule for it.
    """

    project: str
    zone: str
    queued_id: str

    def __post_init__(self) -> None:
        _checked(_PROJECT, self.project, "project id", "3 to 63 lower-case letters, digits and hyphens")
        _checked(_ZONE, self.zone, "zone", "a zone name such as us-central1-a")
        _checked(_QUEUED_ID, self.queued_id, "queued resource", "1 to 63 letters, digits and _ . ~ + % -")

    @classmethod
    def parse(cls, full_name: str) -> QueuedName:
        match = _QUEUED_NAME.fullmatch(full_name)
        if not match:
            raise BadInput(
                f"{full_name[:200]!r} is not the name of a queued resource.",
                hint="Use projects/PROJECT/locations/ZONE/queuedResources/ID.",
            )
        return cls(project=match[1], zone=match[2], queued_id=match[3])

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.zone}"

    def __str__(self) -> str:
        return f"{self.parent}/queuedResources/{self.queued_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedResource:
    """A request that waits for capacity, as the cloud shows it.

    Attributes:
        state: the API's word, such as ``WAITING_FOR_RESOURCES``; one that this client does not know is ``UNKNOWN(17)``.
        accelerator_type: of its nodes; of the first one where they differ.
        node_ids: of all its nodes, also of those that are not made yet.
        valid_until: when the cloud gives up (Unix seconds); None where that is not said.
        error: why it FAILED.
        labels: those of its first node.
        create_time: RFC 3339 in UTC, or empty.
    """

    name: QueuedName
    state: str
    accelerator_type: str = ""
    runtime_version: str = ""
    spot: bool = False
    preemptible: bool = False
    reserved: bool = False
    node_ids: tuple[str, ...] = ()
    valid_until: float | None = None
    error: TpuError | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    create_time: str = ""

    @property
    def intent_id(self) -> str:
        """Of the wish that made this, or empty when it was made elsewhere."""
        return self.labels.get(INTENT_LABEL, "")

    @property
    def provisioning(self) -> Provisioning:
        """On which terms it asks; flex-start only where we asked for it."""
        return provisioning_of(self)

    @property
    def is_husk(self) -> bool:
        """Over, and good for nothing but to be deleted."""
        return self.state in ("FAILED", "SUSPENDED")

    @property
    def holds_quota(self) -> bool:
        """What it asks for counts until it is deleted, husks too; those of its nodes that exist count themselves."""
        return self.state != "ACTIVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedSpec:
    """What to queue: a node, under a name of its own.

    Attributes:
        reservation: the one to take the chips from, by its id; empty: any that fits, where the node is a reserved one.
    """

    name: QueuedName
    node: NodeSpec
    reservation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedList:
    """The queued resources of a project; `unreachable` names zones that did not answer, so the list is partial."""

    items: tuple[QueuedResource, ...]
    unreachable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A long-running operation of the Cloud TPU API; `error` is set only when `done`.

    Attributes:
        asked_at: when the cloud took it on (Unix seconds); None where it does not say.
        ended_at: when it was done; None while it is not, and where the cloud does not say.
    """

    name: str
    verb: str
    target: str
    done: bool = False
    error: TpuError | None = None
    asked_at: float | None = None
    ended_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerIdentity:
    """What the cloud says of a worker's SSH server, from its guest attributes.

    Attributes:
        host_keys: OpenSSH public keys (``ssh-ed25519 AAAA…``); empty until the VM has published them.
        ssh_port: TCP port; 22 on a real TPU VM, another on an emulated one.
    """

    worker_id: int
    host_keys: tuple[str, ...] = ()
    hostname: str = ""
    ssh_port: int = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A list price in US dollars per hour for a whole node, with the day and the source it was read at.

    `is_live` says that we read it from the Billing Catalog on that day; otherwise it is of our own dated table.
    """

    usd_per_hour: float
    as_of: str
    source: str
    is_live: bool = False

    @property
    def origin(self) -> str:
        """``catalog 2026-11-22`` or ``list 2025``."""
        return f"{'catalog' if self.is_live else 'list'} {self.as_of}"

    def to_json(self) -> dict[str, Any]:
        return {"usd_per_hour": self.usd_per_hour, "as_of": self.as_of, "source": self.source}
