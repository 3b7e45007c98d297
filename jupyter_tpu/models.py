"""Records that several parts of jupyter_tpu share: nodes, queued resources, operations, prices.

The records are frozen. Records that leave the process have `to_json`. This module must not depend on clouds, SSH or
Jupyter; it also runs on the worker (Python 3.10, standard library only).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from jupyter_tpu.errors import BadInput, Text, TpuError
from jupyter_tpu.provisioning import Provisioning, can_be_preempted, check_flags, provisioning_of

# A node ID is an RFC 1035 label, according to the API's documentation. We have recorded no error that confirms this.
# The rule also makes names safe in shells, paths and HTML.
_NODE_ID = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
# Also allows the old form with a domain (``example.com:project``).
_PROJECT = re.compile(r"[a-z0-9][-a-z0-9.:]{2,62}")
_ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z0-9]{1,8}")
_FULL_NAME = re.compile(r"projects/([^/]+)/locations/([^/]+)/nodes/([^/]+)")
# The rule that google-cloud-tpu documents for CreateQueuedResourceRequest.queued_resource_id.
_QUEUED_ID = re.compile(r"[A-Za-z0-9_.~+%-]{1,63}")
_QUEUED_NAME = re.compile(r"projects/([^/]+)/locations/([^/]+)/queuedResources/([^/]+)")

INTENT_LABEL = "jupyter-tpu-intent"
"""Label on every node that jupyter_tpu creates; its value is the intent's id in the journal."""


def _checked(pattern: re.Pattern[str], value: str, what: str, rule: str) -> str:
    """Return `value` if it matches the pattern. Otherwise, raise BadInput with `what` and `rule`."""
    if not pattern.fullmatch(value):
        shown = value if len(value) <= 70 else value[:70] + "…"
        raise BadInput(
            Text("{value} is not a valid {what}.", value=repr(shown), what=what),
            exists="No request was sent to the cloud.",
            hint=Text("Use {rule}.", rule=rule),
        )
    return value


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class NodeName:
    """The full name of a node: ``projects/{project}/locations/{zone}/nodes/{node_id}``.

    Raises:
        BadInput: a part violates the API's rules.
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
        """Split a full name into its parts. Raises `BadInput` for anything else."""
        match = _FULL_NAME.fullmatch(full_name)
        if not match:
            raise BadInput(
                Text("{name} is not a node name.", name=repr(full_name[:200])),
                hint="Use projects/PROJECT/locations/ZONE/nodes/NODE.",
            )
        return cls(project=match[1], zone=match[2], node_id=match[3])

    @property
    def parent(self) -> str:
        """The node's parent in the API: project and zone."""
        return f"projects/{self.project}/locations/{self.zone}"

    def __str__(self) -> str:
        return f"{self.parent}/nodes/{self.node_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One TPU VM of a node. An address is empty if the VM doesn't have it."""

    worker_id: int
    ip_address: str = ""
    external_ip: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the worker as the REST API shows it."""
        return {"worker_id": self.worker_id, "ip_address": self.ip_address, "external_ip": self.external_ip}


_NOT_BILLED = frozenset(
    {
        "",  # an empty name, because there is no such node
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
"""States in which a node is not billed by the hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """The user's options for a new node, except name, place, type, version and provisioning model.

    Every option is a flag, off by default. `create`, `search` and `queue` have an argument for each option, such as
    ``--internal-ips``, with the given ``help``. In REST API bodies and the journal, each option is a field of the node.
    """

    internal_ips: bool = field(
        default=False, metadata={"help": "no external IP addresses: reachable only from the node's network"}
    )

    def to_json(self) -> dict[str, bool]:
        """Return the options in the journal's format. The journal stores them next to the other fields of a node."""
        return asdict(self)

    @classmethod
    def pick(cls, among: Mapping[str, Any]) -> NodeOptions:
        """Extract the options from a mapping that may have other entries. A missing option is off."""
        return cls(**{name: among.get(name, False) for name in NODE_OPTIONS})


NODE_OPTIONS = tuple(each.name for each in fields(NodeOptions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as the cloud describes it.

    Attributes:
        state: the API's name of the state, such as ``READY``. A state that this client does not know is
            ``UNKNOWN(17)``.
        health: the API's name of the node's health; empty until the cloud reports the health.
        uid: the API's ``id``, a decimal number. A node that is recreated with the same name has a new uid.
        create_time: creation time in RFC 3339 format in UTC; empty if unknown.
        options: the options that the node was created with, if the cloud reports them.
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
    options: NodeOptions = field(default_factory=NodeOptions)
    uid: str = ""
    create_time: str = ""
    workers: tuple[Worker, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    description: str = ""

    @property
    def intent_id(self) -> str:
        """The id of the intent that created this node; empty if jupyter_tpu did not create it."""
        return self.labels.get(INTENT_LABEL, "")

    @property
    def provisioning(self) -> Provisioning:
        """The provisioning model. Flex-start is known only for nodes that jupyter_tpu requested."""
        return provisioning_of(self)

    @property
    def is_billed(self) -> bool:
        """Whether the node is billed by the hour: it is READY (cloud.google.com/tpu/pricing) or in an unknown state.

        An unknown state counts as billed, because a running node with a new state would otherwise be neither counted
        nor stopped.
        """
        return self.state not in _NOT_BILLED


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """A node to create, under one provisioning model (see `jupyter_tpu.provisioning`).

    Raises:
        BadInput: more than one of `spot`, `preemptible` and `reserved` is set.
    """

    name: NodeName
    accelerator_type: str
    runtime_version: str
    spot: bool = False
    preemptible: bool = False
    reserved: bool = False
    options: NodeOptions = field(default_factory=NodeOptions)
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_flags(spot=self.spot, preemptible=self.preemptible, reserved=self.reserved)

    @property
    def provisioning(self) -> Provisioning:
        """The provisioning model, according to flags and labels."""
        return provisioning_of(self)

    def to_json(self) -> dict[str, Any]:
        """Return the spec as the journal stores it."""
        return {
            "name": str(self.name),
            "accelerator_type": self.accelerator_type,
            "runtime_version": self.runtime_version,
            "spot": self.spot,
            "preemptible": self.preemptible,
            "reserved": self.reserved,
            **self.options.to_json(),
            "labels": dict(self.labels),
            "metadata": dict(self.metadata),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NodeSpec:
        """Create a spec from a `to_json` result, which may lack newer fields if an earlier version wrote it."""
        return cls(
            name=NodeName.parse(data["name"]),
            accelerator_type=data["accelerator_type"],
            runtime_version=data["runtime_version"],
            spot=data["spot"],
            preemptible=data.get("preemptible", False),
            reserved=data.get("reserved", False),
            options=NodeOptions.pick(data),
            labels=dict(data["labels"]),
            metadata=dict(data["metadata"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeList:
    """The nodes of a project. The list is incomplete if `unreachable` names zones that did not respond."""

    nodes: tuple[Node, ...]
    unreachable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class QueuedName:
    """The full name of a queued resource: ``projects/{project}/locations/{zone}/queuedResources/{queued_id}``.

    Raises:
        BadInput: a part violates the API's rules.
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
        """Split a full name into its parts. Raises `BadInput` for anything else."""
        match = _QUEUED_NAME.fullmatch(full_name)
        if not match:
            raise BadInput(
                Text("{name} is not the name of a queued resource.", name=repr(full_name[:200])),
                hint="Use projects/PROJECT/locations/ZONE/queuedResources/ID.",
            )
        return cls(project=match[1], zone=match[2], queued_id=match[3])

    @property
    def parent(self) -> str:
        """The queued resource's parent in the API: project and zone."""
        return f"projects/{self.project}/locations/{self.zone}"

    def __str__(self) -> str:
        return f"{self.parent}/queuedResources/{self.queued_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedResource:
    """A queued resource (a request waiting for capacity) as the cloud describes it.

    Attributes:
        state: the API's name of the state, such as ``WAITING_FOR_RESOURCES``. A state that this client does not know is
            ``UNKNOWN(17)``.
        accelerator_type: type of its nodes; type of the first node if their types differ.
        node_ids: ids of all its nodes, including those that do not exist yet.
        valid_until: when the cloud gives up waiting for capacity (Unix seconds); None if the cloud reports no time.
        error: why the queued resource is in the state FAILED; None in other states.
        labels: labels of its first node.
        create_time: creation time in RFC 3339 format in UTC; empty if unknown.
        is_reclaimed: whether the cloud is suspending or has suspended the queued resource; false if a user deleted its
            nodes.
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
    is_reclaimed: bool = False

    @property
    def intent_id(self) -> str:
        """The id of the intent that created the queued resource; empty if jupyter_tpu did not create it."""
        return self.labels.get(INTENT_LABEL, "")

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        """The names of all nodes of the queued resource, including those that do not exist yet."""
        name = self.name
        return tuple(NodeName(project=name.project, zone=name.zone, node_id=each) for each in self.node_ids)

    @property
    def was_preempted(self) -> bool:
        """Whether the nodes were pre-empted. They never have the state PREEMPTED, because the cloud deletes them."""
        # the cloud also suspends a flex-start request when its time has expired
        return self.is_reclaimed and can_be_preempted(self.provisioning)

    @property
    def provisioning(self) -> Provisioning:
        """The provisioning model. Flex-start is recognised only if jupyter_tpu made the request."""
        return provisioning_of(self)

    @property
    def is_leftover(self) -> bool:
        """Whether the queued resource is finished and only needs to be deleted."""
        return self.state in ("FAILED", "SUSPENDED")

    @property
    def holds_quota(self) -> bool:
        """Whether the queued resource counts towards quota. While it is ACTIVE, its nodes count instead."""
        return self.state != "ACTIVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedSpec:
    """A request to create a node through a queued resource, which is called `name`.

    Attributes:
        reservation: id of the reservation to use; empty to use any matching reservation if the node is reserved.
    """

    name: QueuedName
    node: NodeSpec
    reservation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedList:
    """A project's queued resources. The list is incomplete if `unreachable` names zones that did not respond."""

    items: tuple[QueuedResource, ...]
    unreachable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A long-running operation of the Cloud TPU API. `error` is set only if `done` is true.

    Attributes:
        created_at: when the cloud accepted the operation (Unix seconds); None if the cloud reports no time.
        ended_at: when the operation finished (Unix seconds); None if it has not finished or the cloud reports no time.
    """

    name: str
    verb: str
    target: str
    done: bool = False
    error: TpuError | None = None
    created_at: float | None = None
    ended_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerIdentity:
    """The host keys and port of a worker's SSH server, from its guest attributes.

    Attributes:
        host_keys: OpenSSH public keys (``ssh-ed25519 AAAA…``); empty until the VM has published them.
        ssh_port: TCP port of the SSH server; 22 on a real TPU VM, a different port on an emulated VM.
    """

    worker_id: int
    host_keys: tuple[str, ...] = ()
    hostname: str = ""
    ssh_port: int = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A list price in US dollars per hour for a whole node.

    Attributes:
        as_of: the date when the price was read, such as ``2026-11-22``.
        source: where the price was read.
        is_live: whether the price was read from Google's Billing Catalog; if not, it comes from the package's price
            table.
    """

    usd_per_hour: float
    as_of: str
    source: str
    is_live: bool = False

    @property
    def origin(self) -> str:
        """The price's source and date for display: ``catalog 2026-11-22`` or ``list 2025``."""
        return f"{'catalog' if self.is_live else 'list'} {self.as_of}"

    def to_json(self) -> dict[str, Any]:
        """Return the price as the REST API shows it."""
        return {"usd_per_hour": self.usd_per_hour, "as_of": self.as_of, "source": self.source}
