"""The API methods on nodes and their immediate responses. Effects that happen later are in `effects`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from google.protobuf.message import Message

from jupyter_tpu.emulator.engine.operations import Operations
from jupyter_tpu.emulator.limits.quota_ids import is_preemptible
from jupyter_tpu.emulator.limits.rules import Rules
from jupyter_tpu.emulator.nodes import validation
from jupyter_tpu.emulator.nodes.new_nodes import NewNodes
from jupyter_tpu.emulator.nodes.validation_parts import check_cidr_free
from jupyter_tpu.emulator.resources import errors, paging
from jupyter_tpu.emulator.resources.behaviours import assumed, documented, recorded
from jupyter_tpu.emulator.resources.clock import VirtualClock
from jupyter_tpu.emulator.resources.names import location_of, parse_location, snake_case
from jupyter_tpu.emulator.resources.protos import ALLOWED_IN, NodePb, State, new, state_name
from jupyter_tpu.emulator.resources.records import GuestItem
from jupyter_tpu.emulator.resources.request import ApiRequest
from jupyter_tpu.emulator.store.database import Store
from jupyter_tpu.emulator.store.ledger import Ledger

# the documented mask (tags, labels, metadata, description, external IPs) and, as gcloud and dstack send it, data_disks
UPDATABLE = ("description", "labels", "metadata", "tags", "data_disks", "network_config.enable_external_ips")


class GuestAttributes(Protocol):
    """Access to the guest attributes that the workers of a node publish."""

    def guest_items(self, node: NodePb, worker_id: int) -> list[GuestItem]:
        """Return a worker's guest attributes, or an empty list while the worker is not running."""


class Nodes:
    """The API methods that list, get, create, delete, stop, start and update nodes and read their guest attributes."""

    def __init__(
        self,
        *,
        store: Store,
        clock: VirtualClock,
        ledger: Ledger,
        rules: Rules,
        new_nodes: NewNodes,
        operations: Operations,
        guests: GuestAttributes,
        on_metadata: Callable[[NodePb], None],
        settle: Callable[[str], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._ledger = ledger
        self._rules = rules
        self._new_nodes = new_nodes
        self._operations = operations
        self._guests = guests
        self._on_metadata = on_metadata
        self._settle = settle

    def list_nodes(self, request: Any) -> Any:
        """Handle ``ListNodes``: return one page, sorted by name, of one zone or, with ``-``, of all zones."""
        location = parse_location(request.parent, "parent")
        size = paging.page_size_of(request.page_size)
        after = paging.name_before(request.page_token)
        zone = None if location.is_wildcard else location.zone
        rest = self._store.nodes(zone, after=after, limit=size + 1)
        nodes, token = paging.cut(rest, _name_of, size)
        return new("ListNodesResponse", nodes=nodes, next_page_token=token)

    def get_node(self, request: Any) -> NodePb:
        """Handle ``GetNode``; raise NOT_FOUND if there is no such node."""
        return self._required(request.name)

    def create_node(self, call: ApiRequest) -> Message:
        """Handle ``CreateNode``: store a CREATING node and start its operation.

        Raises:
            Refusal: the node already exists, is invalid, or exceeds a quota.
        """
        request = call.request
        location = parse_location(request.parent, "parent")
        validation.check_node_id(request.node_id)
        node = self._new_nodes.make(request.node, location, request.node_id, call.version)
        if self._store.node(node.name) is not None:
            raise errors.already_exists(node.name)
        if node.cidr_block:
            check_cidr_free(node.cidr_block, (each.cidr_block for each in self._store.nodes()))
        # stopped and pre-empted nodes count as well, until they are deleted (behaviour `leftovers-count`)
        held = [*self._store.held_nodes(), *self._store.held_by_queue()]
        self._rules.admission.check_nodes([node], location.zone, held)
        self._store.save_node(node)
        # fields that exist only in v2alpha1 can't be stored in a v2 message
        self._store.save_extras(node.name, call.extras)
        return self._operations.start("create", node.name, needs_chips=True)

    @documented(
        "delete-stops-billing",
        "A node is billed until its deletion is requested.",
        source="cloud.google.com/tpu/pricing (charges accrue while a node is READY)",
    )
    @assumed(
        "delete-while-creating",
        "A node can be deleted while it is CREATING; its create operation then fails with code 1.",
    )
    def delete_node(self, request: Any) -> Message:
        """Handle ``DeleteNode``: billing stops and the node is DELETING immediately; its workers stop later."""
        node = self._allowed("delete", request.name)
        # a scripted fault will make this delete fail, so don't abort operations in flight
        if self._operations.verdict is not None:
            return self._operations.start("delete", node.name, node.state)
        # a create or start operation that is still running would recreate the node
        self._operations.abort(node.name)
        operation = self._move(node, "delete", State.DELETING)
        self._settle(self._store.queued_resource_of(node.name))
        return operation

    def stop_node(self, request: Any) -> Message:
        """Handle ``StopNode``; raise an error if the node is not READY or is of a kind that can't be stopped."""
        node = self._allowed("stop", request.name)
        check_can_stop(node, self._rules.project.switches.stop_refused_for)
        return self._move(node, "stop", State.STOPPING)

    def start_node(self, request: Any) -> Message:
        """Handle ``StartNode``; raise an error if the node is not STOPPED, or is spot or preemptible."""
        node = self._allowed("start", request.name)
        check_can_start(node)
        return self._move(node, "start", State.STARTING)

    @recorded(
        "update-mask",
        "An update applies only the paths in the mask, in camelCase or snake_case, and ignores other fields of the "
        "body.",
        source="gcloud's and dstack's requests; SkyPilot sends the whole node with updateMask=tags",
    )
    @assumed(
        "update-at-once",
        "An update is visible at once, although its operation takes a while. Maps and lists are replaced as a "
        "whole. An empty mask, or a mask with a field that can't be updated, is refused.",
    )
    def update_node(self, call: ApiRequest) -> Message:
        """Handle ``UpdateNode``: copy the fields in the mask to the node, immediately."""
        request = call.request
        # gcloud sends snake_case, Google's clients camelCase
        paths = [snake_case(path) for path in request.update_mask.paths]
        check_mask(paths)
        node = self._allowed("update", request.node.name)
        for path in paths:
            replace_field(node, request.node, path)
        # check after the merge, because limits such as the number of labels apply to the whole node
        validation.check_texts(node)
        self._store.save_node(node)
        self._update_extras(node.name, call, paths)
        # the SSH keys of running workers may have changed
        self._on_metadata(node)
        return self._operations.start("update", node.name, node.state)

    @recorded(
        "guest-attributes",
        "Workers publish their host key as ssh-ed25519, and their host name. An empty workerIds, or [''], means all "
        "workers.",
        source="gcloud command_lib/compute/tpus/tpu_vm/ssh.py",
    )
    @assumed(
        "guest-namespaces",
        "Host keys are in the namespace hostkeys and the host name is in guestInventory, as on Compute "
        "Engine. Guest attributes are published only while the node is READY. Only the emulator has the "
        "namespace `emulator`.",
    )
    def get_guest_attributes(self, request: Any) -> Any:
        """Handle ``GetGuestAttributes`` for the workers and keys in the request."""
        node = self._required(request.name)
        shown = [
            _attributes(request.query_path, self._guests.guest_items(node, worker_id))
            for worker_id in requested_workers(request.worker_ids, len(node.network_endpoints))
        ]
        return new("GetGuestAttributesResponse", guest_attributes=shown)

    def _update_extras(self, name: str, call: ApiRequest, paths: list[str]) -> None:
        """Replace the disk fields that only v2alpha1 has, if the request replaces the disks."""
        if "data_disks" in paths:
            kept = {key: value for key, value in self._store.extras(name).items() if key != "dataDisks"}
            added = {key: value for key, value in call.extras.items() if key == "dataDisks"}
            self._store.save_extras(name, {**kept, **added})

    def _required(self, name: str) -> NodePb:
        location_of(name)
        node = self._store.node(name)
        if node is None:
            raise errors.not_found(name)
        return node

    @assumed(
        "allowed-states",
        "Stop is allowed in READY, start in STOPPED, update in both, and delete in any state except DELETING.",
    )
    def _allowed(self, verb: str, name: str) -> NodePb:
        node = self._required(name)
        if node.state not in ALLOWED_IN[verb]:
            raise errors.wrong_state(verb, state_name(node))
        return node

    def _move(self, node: NodePb, verb: str, state: int) -> Message:
        """Set the node to a transitional state, which is never billed, and start its operation."""
        before, node.state = node.state, state
        self._store.save_node(node)
        self._ledger.node_not_ready(node, self._clock.now())
        return self._operations.start(verb, node.name, before, needs_chips=verb == "start")


@assumed("stop-multi-host", "A node with several workers cannot be stopped (according to older documentation).")
@assumed(
    "stop-spot",
    "A spot node can be stopped unless the project's switches forbid it; one public log shows a stopped spot node.",
)
@assumed("stop-queued", "A node of a queued resource cannot be stopped, only deleted.")
def check_can_stop(node: NodePb, refused_for: Collection[str]) -> None:
    """Raise an error if the node is of a kind that can't be stopped.

    `refused_for` lists the kinds of nodes that can't be stopped in this project: ``multi_host``, ``spot``.
    """
    if "multi_host" in refused_for and len(node.network_endpoints) > 1:
        raise errors.bad_field("name", "stop is not supported for a node with more than one worker")
    if "spot" in refused_for and is_preemptible(node):
        raise errors.bad_field("name", "stop is not supported for spot and preemptible nodes")
    if node.queued_resource:
        raise errors.bad_field("name", "stop is not supported for a node of a queued resource")


@documented(
    "start-spot",
    "Spot and preemptible nodes cannot be restarted; they must be recreated.",
    source="gcloud 528.0.0 command_lib/compute/tpus flags.yaml",
)
def check_can_start(node: NodePb) -> None:
    """Raise an error if the node is spot or preemptible, because such a node can't be started again."""
    if is_preemptible(node):
        raise errors.bad_field("name", "start is not supported for spot and preemptible nodes; create the node again")


def check_mask(paths: list[str]) -> None:
    """Raise an error if the update mask is empty or contains a field that can't be updated."""
    if not paths:
        raise errors.bad_field("update_mask", "update_mask must not be empty")
    for path in paths:
        if path not in UPDATABLE:
            raise errors.bad_field("update_mask", f"{path!r} cannot be updated")


def replace_field(node: NodePb, source: NodePb, path: str) -> None:
    """Copy one field from `source` to `node`, even if it is empty."""
    *parents, leaf = path.split(".")
    for parent in parents:
        node, source = getattr(node, parent), getattr(source, parent)
    # MergeFrom appends to lists, merges maps and doesn't clear fields that the source has cleared
    node.ClearField(leaf)
    part = type(source)()
    part.CopyFrom(source)
    for field, _ in list(part.ListFields()):
        if field.name != leaf:
            part.ClearField(field.name)
    node.MergeFrom(part)


def requested_workers(worker_ids: list[str], count: int) -> list[int]:
    """Return the indices of the workers in a getGuestAttributes request."""
    # gcloud sends [""] for all workers
    if not [word for word in worker_ids if word]:
        return list(range(count))
    for word in worker_ids:
        if not (word.isdigit() and int(word) < count):
            raise errors.bad_field("worker_ids", f"worker id {word[:20]!r} is not valid")
    return [int(word) for word in worker_ids]


def _attributes(query_path: str, items: list[GuestItem]) -> Any:
    wanted = [item for item in items if is_wanted(query_path, item)]
    found = [new("GuestAttributesEntry", namespace=space, key=key, value=value) for space, key, value in wanted]
    return new("GuestAttributes", query_path=query_path, query_value=new("GuestAttributesValue", items=found))


def is_wanted(query_path: str, item: GuestItem) -> bool:
    """Return whether a query path covers a guest attribute.

    ``hostkeys/`` covers all keys in a namespace; ``hostkeys/ssh-ed25519`` covers one key.
    """
    namespace, _, key = query_path.partition("/")
    return namespace in ("", item[0]) and key in ("", item[1])


def _name_of(node: NodePb) -> str:
    return str(node.name)
