"""The effects of due operations on nodes: on the node's state, its workers and the ledger.

If the emulator is killed halfway through an effect, the effect is applied again. The result must then be the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

from jupyter_tpu.emulator.engine.half_created import HalfCreated
from jupyter_tpu.emulator.engine.operations import Operations
from jupyter_tpu.emulator.engine.worker_pool import WorkerPool
from jupyter_tpu.emulator.limits.placement import Placement
from jupyter_tpu.emulator.nodes.addresses import Addresses
from jupyter_tpu.emulator.nodes.preemption_notices import NOTICE_S
from jupyter_tpu.emulator.queued_resources.agenda import Queue
from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.behaviours import assumed, documented, recorded
from jupyter_tpu.emulator.resources.clock import VirtualClock
from jupyter_tpu.emulator.resources.protos import ALLOWED_IN, Health, NodePb, State, new, state_name
from jupyter_tpu.emulator.resources.records import OperationRecord
from jupyter_tpu.emulator.resources.terminations import with_termination
from jupyter_tpu.emulator.store.database import Store
from jupyter_tpu.emulator.store.ledger import Ledger

RUNTIME_PORT = 8470  # the port of real network endpoints (google-cloud-tpu, Node.network_endpoints)
PREEMPTIBLE_S = 86_400.0

ON_THE_WAY = {"start": State.STARTING, "stop": State.STOPPING, "delete": State.DELETING}
"""The transitional state of a node during an operation with this verb."""

ON_THE_WAY_STATES = frozenset({State.CREATING, State.STARTING, State.STOPPING, State.RESTARTING, State.REPAIRING})
"""The transitional states. A node leaves such a state only through its operation."""


class Effects:
    """The effects of due operations on nodes, applied one at a time per node."""

    def __init__(
        self,
        *,
        store: Store,
        clock: VirtualClock,
        ledger: Ledger,
        workers: WorkerPool,
        worker_count: Callable[[str], int],
        operations: Operations,
        placement: Placement,
        half_created: HalfCreated,
        queue: Queue,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ledger = ledger
        self._workers = workers
        self._worker_count = worker_count
        self._addresses = Addresses(store.node)
        self._operations = operations
        self._placement = placement
        self._half_created = half_created
        self._queue = queue
        self._by_verb: dict[str, Callable[[NodePb, OperationRecord], Awaitable[None]]] = {
            "create": self._make_ready,
            "start": self._make_ready,
            "stop": self._make_stopped,
            "delete": self._make_gone,
            "update": self._make_updated,
        }

    async def perform(self, operation: OperationRecord) -> None:
        """Perform one operation; if this raises an exception, the caller must finish the operation with an error."""
        node = self._store.node(operation.target)
        if node is None:
            await self._make_nothing(operation)
        elif operation.verdict is not None:
            # the cause is a scripted fault, or flex-start in a zone that doesn't offer it
            self._fail(operation, operation.verdict)
        # the operation is due for the first time, so look for chips
        elif operation.ready_at is not None:
            self._place(node, operation)
        else:
            await self._by_verb[operation.verb](node, operation)

    def node_changed(self, node: NodePb) -> None:
        """Update the queued resource of a node. Call this in every transaction that changes the node's state."""
        self._queue.settle(self._store.queued_resource_of(node.name))

    def _place(self, node: NodePb, operation: OperationRecord) -> None:
        """Find chips for the node. If there are none, fail the operation; else schedule it for its `ready_at`."""
        verdict = self._placement.verdict(node, operation.zone)
        if verdict is not None:
            self._fail(operation, verdict)
            return
        with self._store.transaction():
            self._store.place_node(node.name)
            self._store.save_operation(replace(operation, due=operation.ready_at, ready_at=None))

    async def _make_nothing(self, operation: OperationRecord) -> None:
        """Finish the operation on a node that is already deleted."""
        with self._store.transaction():
            self._finish(operation, None)

    async def _make_ready(self, node: NodePb, operation: OperationRecord) -> None:
        await self._workers.start(self._with_endpoints(node))
        # starting takes real time; in the meantime, the operation may have been cancelled or the node deleted
        if not self._is_in_flight(operation):
            await self._workers.stop(node)
            return
        with self._store.transaction():
            node = self._with_endpoints(node)
            node.state, node.health = State.READY, Health.HEALTHY
            self._store.save_node(node)
            self._ledger.node_ready(node, self._clock.now())
            self._schedule_end(node)
            self.node_changed(node)
            self._finish(operation, node)

    @documented(
        "preemptible-end",
        "A preemptible node is pre-empted at most 24 hours after it became READY; spot nodes have no such limit.",
        source="cloud.google.com/tpu/docs/preemptible",
    )
    def _schedule_end(self, node: NodePb) -> None:
        if node.scheduling_config.preemptible:
            ends = self._clock.now() + PREEMPTIBLE_S
            # the expiry is the time of the notice, so that the node stops after exactly 24 h
            self._store.set_expiry(node.name, ends - NOTICE_S)
            self._store.save_extras(node.name, with_termination(self._store.extras(node.name), ends))

    async def _make_stopped(self, node: NodePb, operation: OperationRecord) -> None:
        await self._workers.stop(node)
        if not self._is_in_flight(operation):
            await self._bring_back(operation)
            return
        with self._store.transaction():
            # set the state only after all workers are down, so that nothing is running when a client sees STOPPED
            node.state = State.STOPPED
            # only a running node has a health state
            node.ClearField("health")
            self._store.save_node(node)
            self._store.set_expiry(node.name, None)
            self.node_changed(node)
            self._finish(operation, node)

    async def _make_gone(self, node: NodePb, operation: OperationRecord) -> None:
        # remove the workers before the row, because an unlisted node must have no processes
        await self._workers.remove(node)
        if not self._is_in_flight(operation):
            await self._bring_back(operation)
            return
        with self._store.transaction():
            self._remove(node)
            self._finish(operation, None)

    def _remove(self, node: NodePb) -> None:
        queued_resource = self._store.queued_resource_of(node.name)
        self._store.remove_node(node.name, self._clock.now())
        self._queue.settle(queued_resource)

    async def _bring_back(self, operation: OperationRecord) -> None:
        """Restart the workers of a node whose stop or deletion was cancelled while they were shutting down."""
        node = self._store.node(operation.target)
        if node is not None and node.state == State.READY:
            await self._workers.start(node)

    async def _make_updated(self, node: NodePb, operation: OperationRecord) -> None:
        with self._store.transaction():
            self._finish(operation, node)

    @recorded(
        "preemption",
        "A pre-empted node is PREEMPTED, stays in the list, and can only be deleted.",
        source="cloud.google.com/tpu/docs/preemptible; SkyPilot cloud_vm_ray_backend.py",
    )
    async def preempt(self, node: NodePb) -> None:
        """Preempt a node, when the control API requests it or when a notice of pre-emption expires."""
        if node.state not in ALLOWED_IN["preempt"]:
            raise errors.wrong_state("preempt", state_name(node))
        node.state = State.PREEMPTED
        with self._store.transaction():
            self._store.save_node(node)
            # billing ends with the state change, before the workers have stopped in real time
            self._ledger.node_preempted(node, self._clock.now())
            self._store.set_expiry(node.name, None)
            self.node_changed(node)
        await self._workers.stop(node)

    @assumed(
        "delete-for-good",
        "A delete cannot be cancelled if it has aborted a running operation of its node, or if it deletes a queued "
        "resource.",
    )
    def roll_back(self, operation: OperationRecord) -> bool:
        """Undo what an operation's request changed. Returns False if this is impossible and the operation continues."""
        node = self._store.node(operation.target)
        # nothing to undo: the node has been deleted, or the effect has already happened
        if node is None or operation.due is None:
            return True
        if operation.verb == "create" and node.state == State.CREATING:
            # a scripted fault may keep the node after its operation has failed
            if not self._half_created.stays(operation):
                self._remove(node)
        elif node.state == ON_THE_WAY.get(operation.verb):
            # a node that was restored to a transitional state would stay in it forever
            if operation.state_before in ON_THE_WAY_STATES or self._is_to_go(node):
                return False
            self._return_to(node, operation.state_before)
        return True

    def _is_to_go(self, node: NodePb) -> bool:
        return self._queue.is_ending(self._store.queued_resource_of(node.name))

    def _return_to(self, node: NodePb, state: int) -> None:
        node.state = state
        self._store.save_node(node)
        if state == State.READY:
            self._ledger.node_ready(node, self._clock.now())
        self.node_changed(node)

    def _is_in_flight(self, operation: OperationRecord) -> bool:
        """Return False if the operation was cancelled or its node deleted while the workers were being changed."""
        current = self._store.operation(operation.name)
        return current is not None and current.due is not None

    def _fail(self, operation: OperationRecord, status: Any) -> None:
        with self._store.transaction():
            self.roll_back(operation)
            self._operations.finish(operation, error=status)

    def _finish(self, operation: OperationRecord, node: NodePb | None) -> None:
        self._operations.finish(operation, result=node)

    @documented(
        "endpoints",
        "A READY node has one network endpoint for each TPU VM, on port 8470. In the emulator, the external address"
        " is 127.0.0.1.",
        source="google-cloud-tpu, Node.network_endpoints; gcloud tpu_vm/ssh.py",
    )
    def _with_endpoints(self, node: NodePb) -> NodePb:
        addresses = self._addresses.assign(node, self._worker_count(node.accelerator_type))
        node.ClearField("network_endpoints")
        node.network_endpoints.extend(_endpoint(node, address) for address in addresses)
        return node

    def restore_endpoints(self, nodes: Iterable[NodePb]) -> None:
        """Reserve the addresses that nodes had before a restart; assign new ones to nodes without addresses."""
        with self._store.transaction():
            for node in nodes:
                if node.network_endpoints:
                    self._store.save_node(self._with_endpoints(node))


def _endpoint(node: NodePb, address: str) -> Any:
    endpoint = new("NetworkEndpoint", ip_address=address, port=RUNTIME_PORT)
    if node.network_config.enable_external_ips or node.network_configs:
        endpoint.access_config.external_ip = "127.0.0.1"
    return endpoint
