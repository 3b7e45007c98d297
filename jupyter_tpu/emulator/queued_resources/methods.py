"""The API methods on queued resources and their immediate responses. Later state changes are in `agenda`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.message import Message

from jupyter_tpu.emulator.engine.operations import Operations
from jupyter_tpu.emulator.limits.rules import Rules
from jupyter_tpu.emulator.nodes.new_nodes import NewNodes
from jupyter_tpu.emulator.nodes.validation import accelerator_of
from jupyter_tpu.emulator.queued_resources.nodes import QueueNodes
from jupyter_tpu.emulator.queued_resources.records import in_state, state_name
from jupyter_tpu.emulator.queued_resources.specs import (
    WantedNode,
    check_model,
    check_run,
    interval_of,
    is_flex,
    offers_flex_start,
    wanted_nodes,
)
from jupyter_tpu.emulator.queued_resources.validation import (
    check_node_ids,
    check_queued_resource,
    check_queued_resource_id,
)
from jupyter_tpu.emulator.resources import errors, operation_errors, paging
from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.resources.clock import VirtualClock
from jupyter_tpu.emulator.resources.names import Location, location_of, parse_location
from jupyter_tpu.emulator.resources.protos import Initiator, NodePb, QueuedState, new
from jupyter_tpu.emulator.resources.records import QueuedRecord
from jupyter_tpu.emulator.resources.request import ApiRequest
from jupyter_tpu.emulator.store.database import Store
from jupyter_tpu.emulator.store.holdings import Kind, kind_of


class QueuedResources:
    """The API methods that list, get, create, delete and reset queued resources."""

    def __init__(
        self,
        *,
        store: Store,
        clock: VirtualClock,
        rules: Rules,
        operations: Operations,
        new_nodes: NewNodes,
        nodes: QueueNodes,
    ) -> None:
        self._store = store
        self._clock = clock
        self._rules = rules
        self._operations = operations
        self._new_nodes = new_nodes
        self._nodes = nodes

    def handlers(self) -> dict[str, Callable[[ApiRequest], Message]]:
        """Return the handler of each API method."""
        return {
            "ListQueuedResources": self.list_queued_resources,
            "GetQueuedResource": self.get_queued_resource,
            "CreateQueuedResource": self.create_queued_resource,
            "DeleteQueuedResource": self.delete_queued_resource,
            "ResetQueuedResource": self.reset_queued_resource,
        }

    def list_queued_resources(self, call: ApiRequest) -> Message:
        """Handle ``ListQueuedResources``: return one page, sorted by name, of one zone or all zones."""
        request = call.request
        location = parse_location(request.parent, "parent")
        size = paging.page_size_of(request.page_size)
        after = paging.name_before(request.page_token)
        # ``locations/-`` lists all zones
        zone = None if location.is_wildcard else location.zone
        rest = self._store.queued_resources(zone, after=after, limit=size + 1)
        found, token = paging.cut(rest, _name_of, size)
        shown = [queued.body for queued in found]
        return _message(new("ListQueuedResourcesResponse", queued_resources=shown, next_page_token=token))

    def get_queued_resource(self, call: ApiRequest) -> Message:
        """Handle ``GetQueuedResource``; raise NOT_FOUND if there is no such queued resource."""
        return _message(self._required(call.request.name).body)

    @documented(
        "queued-create",
        "A queued resource is CREATING until its operation is done, then ACCEPTED. Quota and the allow-list are "
        "checked first.",
        source="google-cloud-tpu, QueuedResourceState.State; E2 and E7 in public logs of queued-resources create",
    )
    def create_queued_resource(self, call: ApiRequest) -> Message:
        """Handle ``CreateQueuedResource``: store a queued resource in the state CREATING and start its operation."""
        request, extras = call.request, call.extras
        location = parse_location(request.parent, "parent")
        check_queued_resource_id(request.queued_resource_id)
        queued = self._new(call, location)
        wanted = wanted_nodes(queued.body, request.queued_resource_id, extras)
        check_node_ids(each.node_id for each in wanted)
        nodes = [self._build_node(each, location, call.version) for each in wanted]
        # build the nodes only for checks and counts; the real ones are created when there is capacity
        self._check(queued, nodes, location, extras)
        # store the kinds, so that quotas can be counted without reading each request
        kinds = [(kind_of(node, is_flex=is_flex(extras)), 1) for node in nodes]
        self._store.add_queued(queued, _counted(kinds))
        self._store.save_extras(queued.name, extras)
        return self._operations.start("create", queued.name, verdict=_flex_verdict(nodes, location.zone, extras))

    @documented(
        "queued-delete",
        "A queued resource with nodes can be deleted only with force, which also deletes its nodes.",
        source="cloud.google.com/tpu/docs/queued-resources; google-cloud-tpu, DeleteQueuedResourceRequest.force",
    )
    @assumed(
        "queued-delete-refusal",
        "Without force, the deletion of a queued resource with nodes is refused with the text of `E5-wrong-state`.",
    )
    def delete_queued_resource(self, call: ApiRequest) -> Message:
        """Handle ``DeleteQueuedResource``; with ``force``, its nodes are deleted too."""
        queued = self._required(call.request.name)
        nodes = self._store.nodes_of_queued(queued.name)
        if queued.state == QueuedState.DELETING or (nodes and not call.request.force):
            raise errors.wrong_state("delete", state_name(queued))
        if self._operations.verdict is not None:
            return self._operations.start("delete", queued.name, queued.state)
        # the node's create operation may still be in progress
        self._operations.abort(queued.name)
        self._store.save_queued(in_state(queued, QueuedState.DELETING, initiator=Initiator.USER))
        if not nodes:
            return self._operations.start("delete", queued.name, queued.state)
        # with nodes, the operation is done when the last node is deleted
        operation = self._operations.start_waiting("delete", queued.name, queued.state)
        self._nodes.delete(nodes)
        return operation

    @assumed(
        "queued-reset",
        "A reset restarts the TPU VMs of an ACTIVE queued resource. Its nodes are RESTARTING for a minute, and are "
        "not billed during that time.",
    )
    def reset_queued_resource(self, call: ApiRequest) -> Message:
        """Handle ``ResetQueuedResource``: restart all nodes of the queued resource."""
        queued = self._required(call.request.name)
        if queued.state != QueuedState.ACTIVE:
            raise errors.wrong_state("reset", state_name(queued))
        if self._operations.verdict is None:
            self._nodes.restart(queued.name)
        return self._operations.start("reset", queued.name, queued.state)

    def _new(self, call: ApiRequest, location: Location) -> QueuedRecord:
        now = self._clock.now()
        body = type(call.request.queued_resource)()
        body.CopyFrom(call.request.queued_resource)
        check_queued_resource(body, location, now)
        body.name = f"{location}/queuedResources/{call.request.queued_resource_id}"
        # the service fills in these fields, as in a recorded response
        for spec in body.tpu.node_spec:
            spec.parent = str(location)
            spec.node.accelerator_type = accelerator_of(spec.node, location.zone).type
            spec.node.queued_resource = body.name
        body.create_time.FromNanoseconds(int(now * 1e9))
        bounds = interval_of(body.queueing_policy, now)
        queued = QueuedRecord(body=body, created=now, valid_from=bounds.start, valid_until=bounds.end)
        return in_state(queued, QueuedState.CREATING)

    def _build_node(self, wanted: WantedNode, location: Location, version: str) -> NodePb:
        return self._new_nodes.make(wanted.node, location, wanted.node_id, version)

    def _check(self, queued: QueuedRecord, nodes: list[NodePb], location: Location, extras: Mapping[str, Any]) -> None:
        check_model(queued.body, extras)
        check_run(extras, self._clock.now())
        for name in (queued.name, *(node.name for node in nodes)):
            if self._store.queued(name) is not None or self._store.node(name) is not None:
                raise errors.already_exists(name)
        held = [*self._store.held_nodes(), *self._store.held_by_queue()]
        self._rules.admission.check_nodes(_counting(nodes, extras), location.zone, held, is_queued=True)

    def _required(self, name: str) -> QueuedRecord:
        location_of(name)
        queued = self._store.queued(name)
        if queued is None:
            raise errors.not_found(name)
        return queued


@documented(
    "flex-start-quota",
    "Flex-start nodes use preemptible quota.",
    source="cloud.google.com/tpu/docs/request-using-flex-start",
)
def _counting(nodes: list[NodePb], extras: Mapping[str, Any]) -> list[NodePb]:
    """Return nodes as quotas count them: flex-start nodes count as spot nodes."""
    if not is_flex(extras):
        return nodes
    counted = [type(node)() for node in nodes]
    for node, copy in zip(nodes, counted, strict=True):
        copy.CopyFrom(node)
        copy.scheduling_config.spot = True
    return counted


def _flex_verdict(nodes: list[NodePb], zone: str, extras: Mapping[str, Any]) -> Any:
    """Return the error for a flex-start create in a zone without flex-start, or None."""
    refused = [node for node in nodes if not offers_flex_start(node.accelerator_type, zone)] if is_flex(extras) else []
    return operation_errors.flex_start_unsupported(refused[0].accelerator_type, zone) if refused else None


def _counted(kinds: list[tuple[Kind, int]]) -> list[tuple[Kind, int]]:
    totals: dict[Kind, int] = {}
    for kind, count in kinds:
        totals[kind] = totals.get(kind, 0) + count
    return list(totals.items())


def _message(message: Any) -> Message:
    found: Message = message
    return found


def _name_of(queued: QueuedRecord) -> str:
    return queued.name
