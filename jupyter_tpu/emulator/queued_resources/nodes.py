"""Delete or restart all nodes of a queued resource together."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_tpu.emulator.engine.operations import Operations, Plan
from jupyter_tpu.emulator.resources.clock import VirtualClock
from jupyter_tpu.emulator.resources.protos import NodePb, State
from jupyter_tpu.emulator.store.database import Store
from jupyter_tpu.emulator.store.ledger import Ledger


class QueueNodes:
    """Deletes and restarts the nodes of queued resources. Call every method in a transaction."""

    def __init__(self, store: Store, clock: VirtualClock, ledger: Ledger, operations: Operations) -> None:
        self._store = store
        self._clock = clock
        self._ledger = ledger
        self._operations = operations

    def delete(self, nodes: Sequence[NodePb]) -> None:
        """Start deleting nodes: cancel their operations in progress and stop their billing."""
        # a fault scripted for the request must not affect the deletion of its nodes
        with self._operations.planned(Plan()):
            for node in nodes:
                if node.state != State.DELETING:
                    self._delete(node)

    def _delete(self, node: NodePb) -> None:
        self._operations.abort(node.name)
        before, node.state = node.state, State.DELETING
        self._store.save_node(node)
        self._ledger.node_not_ready(node, self._clock.now())
        self._operations.start("delete", node.name, before)

    def restart(self, name: str) -> None:
        """Set the READY nodes of a queued resource to RESTARTING, which is not billed."""
        for node in self._store.nodes_of_queued(name):
            if node.state == State.READY:
                node.state = State.RESTARTING
                self._store.save_node(node)
                self._ledger.node_not_ready(node, self._clock.now())
