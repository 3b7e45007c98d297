"""Maintenance of nodes: announced, simulated or started by hand. Until it ends, the node is REPAIRING.

Plans are stored. If the emulator is killed during a step, the step is repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from jupyter_tpu.emulator.engine.operations import Operations
from jupyter_tpu.emulator.engine.timeline import Due
from jupyter_tpu.emulator.engine.worker_pool import WorkerPool
from jupyter_tpu.emulator.maintenance.events import (
    NOTICE_S,
    SCHEDULED,
    UNSCHEDULED,
    MaintenanceEvent,
    event_from_json,
    planned,
    shown,
)
from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.clock import VirtualClock
from jupyter_tpu.emulator.resources.protos import Health, NodePb, State, state_name
from jupyter_tpu.emulator.store.database import Store
from jupyter_tpu.emulator.store.ledger import Ledger
from jupyter_tpu.emulator.store.settings import StoredSetting

EXTRA = "upcomingMaintenance"
UNDER_MAINTENANCE = "The node is under maintenance and will resume running once rescheduled."


class Maintenance:
    """Plan, begin and end the maintenance of all nodes; implements `timeline.Agenda`.

    Calls `node_changed` with each node that changes, and `notice_changed` with the name of each node whose metadata
    changes.
    """

    def __init__(
        self,
        *,
        store: Store,
        clock: VirtualClock,
        ledger: Ledger,
        operations: Operations,
        workers: WorkerPool,
        node_changed: Callable[[NodePb], None],
        notice_changed: Callable[[str], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._ledger = ledger
        self._operations = operations
        self._workers = workers
        self._node_changed = node_changed
        self._notice_changed = notice_changed
        self._setting = StoredSetting(store, "project:maintenance")
        self._events = {row["node"]: event_from_json(row) for row in self._setting.read() or []}

    def announce(self, node: NodePb, kind: str, in_s: float | None = None) -> MaintenanceEvent:
        """Plan maintenance of a node. Without `in_s`, it starts in seven days, or immediately if UNSCHEDULED.

        Raises:
            ValueError: the kind is unknown.
            Refusal: maintenance of the node is ongoing.
        """
        if kind not in (SCHEDULED, UNSCHEDULED):
            raise ValueError(f"{kind!r} is neither {SCHEDULED} nor {UNSCHEDULED}")
        if node.state == State.REPAIRING:
            raise errors.wrong_state("maintenance", state_name(node))
        notice = NOTICE_S if kind == SCHEDULED else 0.0
        event = planned(node, kind, self._clock.now() + (notice if in_s is None else in_s))
        self._save(event)
        return event

    def begin_now(self, node: NodePb, kind: str, *, operation: str, worker_id: int = 0) -> None:
        """Begin maintenance of a READY node now; this replaces planned maintenance of the node.

        `operation` can start several maintenance events. It finishes when the last of these events ends.
        """
        event = planned(node, kind, self._clock.now())
        self._repairing(node, replace(event, operation=operation, worker_id=worker_id))

    def event_of(self, node: NodePb) -> MaintenanceEvent | None:
        """Return the planned or current maintenance of a node, or None."""
        event = self._events.get(node.name)
        return event if event is not None and event.uid == str(node.id) else None

    def events(self) -> list[MaintenanceEvent]:
        """Return all planned and ongoing maintenance events."""
        return list(self._events.values())

    def clear(self) -> None:
        """Remove all maintenance events, for a reset."""
        self._events.clear()
        self._setting.delete()

    # -- the agenda

    def waiting(self) -> list[Due]:
        """Return the next step of each maintenance event: its start or its end."""
        return [self._due(event) for event in self._events.values()]

    def _due(self, event: MaintenanceEvent) -> Due:
        if event.is_down:
            return Due(event.ends, event.node, partial(self._end, event))
        return Due(event.starts, event.node, partial(self._begin, event))

    @assumed(
        "maintenance-workers",
        "During maintenance of a node, all its workers are down, as if the node were stopped; their disks are kept.",
    )
    async def _begin(self, event: MaintenanceEvent) -> None:
        node = self._node_of(event)
        if node is not None and node.state == State.READY:
            with self._store.transaction():
                event = self._repairing(node, event)
        # the node is stopped, pre-empted or deleted: there is nothing to maintain
        if node is None or not event.is_ongoing:
            self._drop(event)
            return
        if node.state == State.REPAIRING:
            await self._workers.stop(node)
        # save this in a separate step: after a crash before it, the workers are stopped again; after a crash later,
        # only the end of the maintenance remains
        with self._store.transaction():
            self._save(replace(event, is_down=True))

    async def _end(self, event: MaintenanceEvent) -> None:
        node = self._node_of(event)
        if node is not None and node.state == State.REPAIRING:
            await self._workers.start(node)
            await self._bring_back(event)
        else:
            self._drop(event)

    async def _bring_back(self, event: MaintenanceEvent) -> None:
        node = self._node_of(event)
        if node is None or node.state != State.REPAIRING:  # the node was deleted while its workers were starting
            if node is not None:
                await self._workers.stop(node)
            return
        with self._store.transaction():
            node.state, node.health = State.READY, Health.HEALTHY
            node.ClearField("health_description")
            self._store.save_node(node)
            self._ledger.node_ready(node, self._clock.now())
            self._forget(event)
            self._node_changed(node)
            self._finish_operation(event, node)

    @assumed("maintenance-bill", "A node under maintenance is not READY, so it is not billed.")
    def _repairing(self, node: NodePb, event: MaintenanceEvent) -> MaintenanceEvent:
        node.state, node.health = State.REPAIRING, Health.UNHEALTHY_MAINTENANCE
        node.health_description = UNDER_MAINTENANCE
        self._store.save_node(node)
        self._ledger.node_not_ready(node, self._clock.now())
        self._node_changed(node)
        ongoing = replace(event, is_ongoing=True)
        self._save(ongoing)
        return ongoing

    def _drop(self, event: MaintenanceEvent) -> None:
        """Remove the maintenance of a node that is deleted, stopped or pre-empted."""
        with self._store.transaction():
            self._forget(event)
            self._finish_operation(event, None)

    def _finish_operation(self, event: MaintenanceEvent, node: NodePb | None) -> None:
        """Finish the event's operation, unless another maintenance event of the same operation is still open."""
        operation = self._store.operation(event.operation) if event.operation else None
        # a call on a queued resource begins one maintenance per node
        others = [each for each in self._events.values() if each.operation == event.operation]
        if operation is None or operation.is_done or others:
            return
        queued = self._store.queued(operation.target)
        result = node if queued is None else queued.body
        # nothing to show: the node was deleted in the meantime
        error = operation.verdict or (errors.cancelled() if result is None else None)
        self._operations.finish(operation, error=error, result=result)

    # -- storage

    def _save(self, event: MaintenanceEvent) -> None:
        self._events[event.node] = event
        self._store.save_extras(event.node, {**self._store.extras(event.node), EXTRA: shown(event)})
        self._write(event)

    def _forget(self, event: MaintenanceEvent) -> None:
        self._events.pop(event.node, None)
        extras = self._store.extras(event.node)
        self._store.save_extras(event.node, {name: value for name, value in extras.items() if name != EXTRA})
        self._write(event)

    def _write(self, event: MaintenanceEvent) -> None:
        self._setting.write([each.to_json() for each in self._events.values()])
        self._notice_changed(event.node)

    def _node_of(self, event: MaintenanceEvent) -> NodePb | None:
        """Return the node, or None if it was deleted, even if a new node has its name."""
        node = self._store.node(event.node)
        return node if node is not None and str(node.id) == event.uid else None
