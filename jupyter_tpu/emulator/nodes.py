"""The methods on nodes: what the API answers at once. What happens later is in `effects`."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any, Protocol

from google.protobuf.message import Message

from jupyter_tpu.emulator import errors, paging, validation
from jupyter_tpu.emulator.asked import V2, Asked
from jupyter_tpu.emulator.behaviours import assumed, documented, recorded
from jupyter_tpu.emulator.clock import VirtualClock
from jupyter_tpu.emulator.ledger import Ledger
from jupyter_tpu.emulator.names import Location, location_of, parse_location
from jupyter_tpu.emulator.operations import Operations
from jupyter_tpu.emulator.protos import API_VERSION_V2, API_VERSION_V2_ALPHA1, NodePb, State, new, state_name
from jupyter_tpu.emulator.quotas import Quotas
from jupyter_tpu.emulator.store import Store

GuestItem = tuple[str, str, str]
"""Namespace, key and value of a guest attribute."""

_CAMEL = re.compile(r"(?<=[a-z0-9])([A-Z])")
UPDATABLE = ("description", "labels", "metadata", "tags", "data_disks", "network_config.enable_external_ips")

ALLOWED_IN = {
    "stop": {State.READY},
    "start": {State.STOPPED},
    "update": {State.READY, State.STOPPED},
    "delete": set(State) - {State.DELETING},
    "preempt": {State.READY},
}
"""States in which the API takes a verb."""


class GuestAttributes(Protocol):
    """What the workers publish; empty for one that is not up."""

    def guest_items(self, node: NodePb, worker_id: int) -> list[GuestItem]: ...


class Nodes:
    """List, get, create, delete, stop, start and update nodes; read their guest attributes."""

    def __init__(
        self,
        *,
        store: Store,
        clock: VirtualClock,
        ledger: Ledger,
        quotas: Quotas,
        operations: Operations,
        guests: GuestAttributes,
        project_number: str,
        on_metadata: Callable[[NodePb], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._ledger = ledger
        self._quotas = quotas
        self._operations = operations
        self._guests = guests
        self._project_number = project_number
        self._on_metadata = on_metadata

    def list_nodes(self, request: Any) -> Any:
        location = parse_location(request.parent, "parent")
        size = paging.page_size_of(request.page_size)
        after = paging.name_before(request.page_token)
        zone = None if location.is_wildcard else location.zone
        rest = self._store.nodes(zone, after=after, limit=size + 1)
        nodes, token = paging.cut(rest, _name_of, size)
        return new("ListNodesResponse", nodes=nodes, next_page_token=token)

    def get_node(self, request: Any) -> NodePb:
        return self._required(request.name)

    def create_node(self, asked: Asked) -> Message:
        request = asked.request
        location = parse_location(request.parent, "parent")
        validation.check_node_id(request.node_id)
        node = self._new_node(request.node, location, request.node_id)
        node.api_version = api_version(asked.version)
        if self._store.node(node.name) is not None:
            raise errors.already_exists(node.name)
        self._quotas.check(node, location.zone, self._store.nodes(location.zone), self._project_number)
        self._store.save_node(node)
        self._store.save_extras(node.name, asked.extras)
        return self._operations.start("create", node.name)

    @documented(
        "delete-stops-billing",
        "A node is billed until its deletion is asked for.",
        source="cloud.google.com/tpu/pricing (charges accrue while a node is READY)",
    )
    @assumed("delete-while-creating", "A node can be deleted while it is made; its create operation ends with code 1.")
    def delete_node(self, request: Any) -> Message:
        node = self._allowed("delete", request.name)
        self._operations.abort(node.name)
        return self._move(node, "delete", State.DELETING)

    def stop_node(self, request: Any) -> Message:
        node = self._allowed("stop", request.name)
        check_can_stop(node)
        return self._move(node, "stop", State.STOPPING)

    def start_node(self, request: Any) -> Message:
        return self._move(self._allowed("start", request.name), "start", State.STARTING)

    @recorded(
        "update-mask",
        "Only paths of the mask are applied, in camelCase or snake_case; other fields of the body are ignored.",
        source="gcloud's and dstack's requests; SkyPilot sends the whole node with updateMask=tags",
    )
    @assumed(
        "update-at-once",
        "An update shows at once, though its operation takes a while; maps and lists are replaced as a whole; an empty "
        "mask or one with another field is refused.",
    )
    def update_node(self, asked: Asked) -> Message:
        request = asked.request
        paths = [snake_case(path) for path in request.update_mask.paths]
        check_mask(paths)
        node = self._allowed("update", request.node.name)
        for path in paths:
            replace_field(node, request.node, path)
        validation.check_texts(node)
        self._store.save_node(node)
        self._update_extras(node.name, asked, paths)
        self._on_metadata(node)
        return self._operations.start("update", node.name, node.state)

    @recorded(
        "guest-attributes",
        "Workers publish their host key as ssh-ed25519 and their host name; workerIds empty or [''] means all.",
        source="gcloud command_lib/compute/tpus/tpu_vm/ssh.py",
    )
    @assumed(
        "guest-namespaces",
        "Host keys stand in the namespace hostkeys, the host name in guestInventory (as on Compute Engine); nothing is "
        "published unless the node is READY. The namespace emulator is ours.",
    )
    def get_guest_attributes(self, request: Any) -> Any:
        node = self._required(request.name)
        shown = [
            _attributes(request.query_path, self._guests.guest_items(node, worker_id))
            for worker_id in asked_workers(request.worker_ids, len(node.network_endpoints))
        ]
        return new("GetGuestAttributesResponse", guest_attributes=shown)

    def _update_extras(self, name: str, asked: Asked, paths: list[str]) -> None:
        """What v2alpha1 adds to the disks is replaced along with them."""
        if "data_disks" in paths:
            kept = {key: value for key, value in self._store.extras(name).items() if key != "dataDisks"}
            added = {key: value for key, value in asked.extras.items() if key == "dataDisks"}
            self._store.save_extras(name, {**kept, **added})

    def _required(self, name: str) -> NodePb:
        location_of(name)
        node = self._store.node(name)
        if node is None:
            raise errors.not_found(name)
        return node

    @assumed(
        "allowed-states",
        "stop works in READY, start in STOPPED, update in both, delete in any state but DELETING.",
    )
    def _allowed(self, verb: str, name: str) -> NodePb:
        node = self._required(name)
        if node.state not in ALLOWED_IN[verb]:
            raise errors.wrong_state(verb, state_name(node))
        return node

    def _move(self, node: NodePb, verb: str, state: int) -> Message:
        """Into a state on the way, which is never billed."""
        before, node.state = node.state, state
        self._store.save_node(node)
        self._ledger.node_not_ready(node, self._clock.now())
        return self._operations.start(verb, node.name, before)

    @assumed(
        "filled-in-fields",
        "A new node gets both accelerator_type and accelerator_config, the default network, a default service account, "
        "a random id and api_version V2.",
    )
    def _new_node(self, asked: NodePb, location: Location, node_id: str) -> NodePb:
        kind = validation.check_new_node(asked, location.zone)
        node = _without_output_fields(asked)
        node.name = f"{location}/nodes/{node_id}"
        node.accelerator_type = kind.type
        node.accelerator_config.type_ = validation.config_type_of(kind)
        node.accelerator_config.topology = kind.topology
        self._fill_in(node, location)
        return node

    def _fill_in(self, node: NodePb, location: Location) -> None:
        if not node.HasField("network_config") and not node.network_configs:
            node.network_config.enable_external_ips = True
        if node.HasField("network_config") and "/" not in node.network_config.network:
            network = node.network_config.network or "default"
            node.network_config.network = f"projects/{location.project}/global/networks/{network}"
        if not node.service_account.email:
            node.service_account.email = f"{self._project_number}-compute@developer.gserviceaccount.com"
        node.state = State.CREATING
        node.id = secrets.randbits(62)
        node.create_time.FromNanoseconds(int(self._clock.now() * 1e9))


def api_version(version: str) -> int:
    """``Node.ApiVersion`` of the version that a node is made by."""
    return int(API_VERSION_V2 if version == V2 else API_VERSION_V2_ALPHA1)


@assumed("stop-multi-host", "A node with several workers cannot be stopped (older documentation says so).")
def check_can_stop(node: NodePb) -> None:
    if len(node.network_endpoints) > 1:
        raise errors.bad_field("name", "stop is not supported for a node with more than one worker")


def check_mask(paths: list[str]) -> None:
    """Raises when the mask is empty or names a field that cannot be updated."""
    if not paths:
        raise errors.bad_field("update_mask", "update_mask must not be empty")
    for path in paths:
        if path not in UPDATABLE:
            raise errors.bad_field("update_mask", f"{path!r} cannot be updated")


def replace_field(node: NodePb, source: NodePb, path: str) -> None:
    """Copy one field of `source`, also when it is empty there."""
    *parents, leaf = path.split(".")
    for parent in parents:
        node, source = getattr(node, parent), getattr(source, parent)
    node.ClearField(leaf)
    part = type(source)()
    part.CopyFrom(source)
    for field, _ in list(part.ListFields()):
        if field.name != leaf:
            part.ClearField(field.name)
    node.MergeFrom(part)


def snake_case(path: str) -> str:
    """``dataDisks`` → ``data_disks``; a path that is in snake_case stays."""
    return _CAMEL.sub(lambda match: f"_{match[1].lower()}", path)


def asked_workers(asked: list[str], count: int) -> list[int]:
    """Indices of the workers that a getGuestAttributes request names."""
    if not [word for word in asked if word]:
        return list(range(count))
    for word in asked:
        if not (word.isdigit() and int(word) < count):
            raise errors.bad_field("worker_ids", f"worker id {word[:20]!r} is not valid")
    return [int(word) for word in asked]


def _attributes(query_path: str, items: list[GuestItem]) -> Any:
    wanted = [item for item in items if is_wanted(query_path, item)]
    found = [new("GuestAttributesEntry", namespace=space, key=key, value=value) for space, key, value in wanted]
    return new("GuestAttributes", query_path=query_path, query_value=new("GuestAttributesValue", items=found))


def is_wanted(query_path: str, item: GuestItem) -> bool:
    """``hostkeys/`` asks for a namespace, ``hostkeys/ssh-ed25519`` for one key, an empty path for all."""
    namespace, _, key = query_path.partition("/")
    return namespace in ("", item[0]) and key in ("", item[1])


def _without_output_fields(asked: NodePb) -> NodePb:
    node = type(asked)()
    node.CopyFrom(asked)
    for name in ("state", "health", "health_description", "network_endpoints", "symptoms", "queued_resource"):
        node.ClearField(name)
    return node


def _name_of(node: NodePb) -> str:
    return str(node.name)
