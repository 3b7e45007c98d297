"""The maintenance methods of the v2alpha1 API."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import code_pb2

from jupyter_tpu.emulator.engine.operations import Operations
from jupyter_tpu.emulator.maintenance.events import SCHEDULED, UNSCHEDULED, shown
from jupyter_tpu.emulator.maintenance.maintenance import Maintenance
from jupyter_tpu.emulator.resources import errors, message_types
from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.resources.names import last_part
from jupyter_tpu.emulator.resources.protos import NodePb, State, state_name
from jupyter_tpu.emulator.resources.request import V2ALPHA1, ApiRequest
from jupyter_tpu.emulator.store.database import Store


class MaintenanceMethods:
    """Handlers of the API methods; `Maintenance` carries out the maintenance."""

    def __init__(self, store: Store, operations: Operations, maintenance: Maintenance) -> None:
        self._store = store
        self._operations = operations
        self._maintenance = maintenance

    def handlers(self) -> dict[str, Callable[[ApiRequest], Message]]:
        """Return the handler of each API method."""
        return {
            "SimulateMaintenanceEvent": self.simulate,
            "PerformMaintenance": self.perform,
            "PerformMaintenanceQueuedResource": self.perform_of_queued,
            "GetMaintenanceInfo": self.info_of_queued,
        }

    @documented(
        "simulate-maintenance",
        "A simulated maintenance event affects the first named worker, or worker 0 if none is named.",
        source="v2alpha1 discovery document, SimulateMaintenanceEventRequest",
    )
    @assumed(
        "simulate-maintenance-node",
        "A simulated maintenance event begins at once; after 5 min, the event and its operation end. Only READY "
        "nodes can have one.",
    )
    def simulate(self, call: ApiRequest) -> Message:
        """Handle ``SimulateMaintenanceEvent``: begin unscheduled maintenance now."""
        node = self._ready_node(call.request.name, "simulateMaintenanceEvent")
        worker_id = named_worker(call.request.worker_ids, len(node.network_endpoints))
        operation = self._operations.start_waiting("simulateMaintenanceEvent", node.name, node.state)
        self._maintenance.begin_now(node, UNSCHEDULED, operation=_name_of(operation), worker_id=worker_id)
        return operation

    @documented(
        "perform-maintenance",
        "Pending maintenance that can be rescheduled can be started manually.",
        source="cloud.google.com/tpu/docs/view-maintenance-notifications",
    )
    @assumed(
        "perform-maintenance-operation",
        "When maintenance is started manually, its operation ends when the maintenance ends.",
    )
    def perform(self, call: ApiRequest) -> Message:
        """Handle ``PerformMaintenance``: begin the pending maintenance of a node now."""
        node = self._maintainable(self._required(call.request.name))
        operation = self._operations.start_waiting("performMaintenance", node.name, node.state)
        self._maintenance.begin_now(node, SCHEDULED, operation=_name_of(operation))
        return operation

    @assumed(
        "perform-maintenance-queued",
        "In a queued resource, maintenance begins at once on the named nodes (by id or full name), or on all nodes "
        "if none is named.",
    )
    def perform_of_queued(self, call: ApiRequest) -> Message:
        """Handle ``PerformMaintenanceQueuedResource``: begin the pending maintenance of the resource's nodes now."""
        name = call.request.name
        nodes = chosen(self._nodes_of(name), call.request.node_names)
        if not nodes:
            raise no_maintenance_pending(name)
        operation = self._operations.start_waiting("performMaintenance", name)
        # check all nodes before the first maintenance
        for node in [self._maintainable(node) for node in nodes]:
            self._maintenance.begin_now(node, SCHEDULED, operation=_name_of(operation))
        return operation

    @documented(
        "maintenance-info",
        "A queued resource shows the upcoming maintenance of its nodes.",
        source="v2alpha1 discovery document, GetMaintenanceInfoResponse",
    )
    def info_of_queued(self, call: ApiRequest) -> Message:
        """Handle ``GetMaintenanceInfo`` for the nodes of a queued resource."""
        infos = [
            {"nodeName": last_part(node.name), "nodeUid": event.uid, "upcomingMaintenance": shown(event)}
            for node in self._nodes_of(call.request.name)
            if (event := self._maintenance.event_of(node)) is not None
        ]
        answer: Message = message_types.new(V2ALPHA1, "GetMaintenanceInfoResponse")
        return json_format.ParseDict({"nodeUpcomingMaintenances": infos}, answer)

    def _required(self, name: str) -> NodePb:
        node = self._store.node(name)
        if node is None:
            raise errors.not_found(name)
        return node

    def _ready_node(self, name: str, verb: str) -> NodePb:
        node = self._required(name)
        if node.state != State.READY:
            raise errors.wrong_state(verb, state_name(node))
        return node

    def _maintainable(self, node: NodePb) -> NodePb:
        if node.state != State.READY:
            raise errors.wrong_state("performMaintenance", state_name(node))
        event = self._maintenance.event_of(node)
        if event is None or not event.can_reschedule:
            raise no_maintenance_pending(node.name)
        return node

    def _nodes_of(self, queued_name: str) -> list[NodePb]:
        if self._store.queued(queued_name) is None:
            raise errors.not_found(queued_name)
        return self._store.nodes_of_queued(queued_name)


def named_worker(worker_ids: Iterable[str], count: int) -> int:
    """Return the first worker id in the request (default: 0). Raise an error if the node has no such worker."""
    first = next((word for word in worker_ids if word), "0")
    if not (first.isdecimal() and first.isascii() and len(first) < 6 and int(first) < count):
        raise errors.bad_field("worker_ids", f"worker id {first[:20]!r} is not valid")
    return int(first)


def chosen(nodes: list[NodePb], names: Iterable[str]) -> list[NodePb]:
    """Return the nodes with these ids or full names, or all nodes if no names are given."""
    by_id = {last_part(node.name): node for node in nodes}
    wanted = [last_part(name) for name in names]
    unknown = [node_id for node_id in wanted if node_id not in by_id]
    if unknown:
        raise errors.bad_field("node_names", f"{unknown[0][:80]!r} is not a node of the queued resource")
    return [by_id[node_id] for node_id in dict.fromkeys(wanted)] or nodes


@assumed(
    "perform-maintenance-refusal",
    "Without pending maintenance that can be rescheduled, the request is refused with code 9; the text is invented.",
)
def no_maintenance_pending(name: str) -> errors.Refusal:
    """Return the error for a node without pending maintenance."""
    message = f"There is no maintenance of '{name}' that can be started now."
    return errors.Refusal(errors.status_of(code_pb2.FAILED_PRECONDITION, message))


def _name_of(operation: Message) -> str:
    return str(operation.name)
