"""The effects of due operations on queued resources: create, delete, reset."""

from __future__ import annotations

from jupyter_tpu.emulator.engine.operations import Operations
from jupyter_tpu.emulator.engine.worker_pool import WorkerPool
from jupyter_tpu.emulator.queued_resources.agenda import Queue
from jupyter_tpu.emulator.queued_resources.records import in_state
from jupyter_tpu.emulator.resources.clock import VirtualClock
from jupyter_tpu.emulator.resources.protos import NodePb, QueuedState, State
from jupyter_tpu.emulator.resources.records import OperationRecord
from jupyter_tpu.emulator.store.database import Store
from jupyter_tpu.emulator.store.ledger import Ledger


class QueueEffects:
    """Apply the effects of due operations, one at a time per queued resource.

    An operation's effects may be applied twice.
    """

    def __init__(
        self,
        *,
        store: Store,
        clock: VirtualClock,
        ledger: Ledger,
        operations: Operations,
        queue: Queue,
        workers: WorkerPool,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ledger = ledger
        self._operations = operations
        self._queue = queue
        self._workers = workers

    async def perform(self, operation: OperationRecord) -> None:
        """Perform one operation; if this raises an exception, the caller must finish the operation with an error."""
        if operation.verb == "reset":
            await self._restart(operation)
        with self._store.transaction():
            self._finish(operation)

    def _finish(self, operation: OperationRecord) -> None:
        queued = self._store.queued(operation.target)
        # the queued resource was deleted before its operation was due, so only finish the operation
        if queued is None:
            self._operations.finish(operation)
        elif operation.verdict is not None:
            self.roll_back(operation)
            self._operations.finish(operation, error=operation.verdict)
        elif operation.verb == "delete":
            self._store.remove_queued(queued.name)
            self._operations.finish(operation)
        else:
            # the operation's result is the current resource; a reset doesn't change its state
            shown = self._queue.accept(queued) if queued.state == QueuedState.CREATING else queued
            self._operations.finish(operation, result=shown.body)

    async def _restart(self, operation: OperationRecord) -> None:
        for node in self._store.nodes_of_queued(operation.target):
            if node.state == State.RESTARTING and operation.verdict is None:
                await self._workers.stop(node)
                await self._workers.start(node)
                await self._make_ready_again(node)

    async def _make_ready_again(self, node: NodePb) -> None:
        current = self._store.node(node.name)
        if current is None or current.state != State.RESTARTING:  # deleted or pre-empted while its workers restarted
            await self._workers.stop(node)
            return
        with self._store.transaction():
            current.state = State.READY
            self._store.save_node(current)
            self._ledger.node_ready(current, self._clock.now())

    def roll_back(self, operation: OperationRecord) -> bool:
        """Undo what an operation's request changed. If this is impossible, return False; the operation continues."""
        queued = self._store.queued(operation.target)
        if operation.verdict is None and operation.verb != "create":
            return False
        if queued is not None and operation.verb == "create":
            self._store.remove_queued(queued.name)
        elif queued is not None and queued.state == QueuedState.DELETING:
            self._store.save_queued(in_state(queued, operation.state_before))
        return True
