"""How queued resources go through their states: one agenda of the timeline, and what follows from their nodes.

CREATING → ACCEPTED → WAITING_FOR_RESOURCES → PROVISIONING → ACTIVE → SUSPENDING → SUSPENDED or FAILED; DELETING from
anywhere. All that is waited for is stored, so an emulator that was killed goes on. What changes a node of a queued
resource calls `settle` in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from google.rpc import code_pb2, status_pb2

from jupyter_tpu.emulator import errors, verdicts
from jupyter_tpu.emulator.behaviours import assumed, documented, recorded
from jupyter_tpu.emulator.clock import VirtualClock
from jupyter_tpu.emulator.ledger import Ledger
from jupyter_tpu.emulator.names import last_part, location_of
from jupyter_tpu.emulator.new_nodes import NewNodes
from jupyter_tpu.emulator.operations import AT_ONCE, Operations, Plan
from jupyter_tpu.emulator.placement import Placement
from jupyter_tpu.emulator.protos import Initiator, NodePb, QueuedState, State
from jupyter_tpu.emulator.queued_specs import WantedNode, is_flex, is_reserved, run_end, wanted_nodes
from jupyter_tpu.emulator.queued_states import in_state
from jupyter_tpu.emulator.records import QueuedRecord
from jupyter_tpu.emulator.store import Store
from jupyter_tpu.emulator.timeline import Due

ACCEPTED_S = 10.0
WAITING_S = 15.0
ADDRESSES_VERDICT_S = 60.0
_CAPACITY = "capacity"


@assumed(
    "queue-durations",
    "In virtual time a queued resource is CREATING for 5 s, ACCEPTED for 10 s and WAITING_FOR_RESOURCES for at least "
    "15 s; its nodes are made in 90 s and deleted in 30 s.",
)
class Queue:
    """The queue of one project, in the order in which was asked."""

    def __init__(
        self,
        *,
        store: Store,
        clock: VirtualClock,
        ledger: Ledger,
        operations: Operations,
        placement: Placement,
        new_nodes: NewNodes,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ledger = ledger
        self._operations = operations
        self._placement = placement
        self._new_nodes = new_nodes
        self._wanted: dict[str, list[WantedNode]] = {}

    # -- the agenda

    def waiting(self) -> list[Due]:
        steps = [Due(moment, name, partial(self._step, name)) for moment, name in self._store.waking_queued(AT_ONCE)]
        return steps + self._due_for_capacity()

    def _due_for_capacity(self) -> list[Due]:
        """The queued resources for which there is room now, and the moment at which there may be more of it."""
        waiting = self._store.queued_in_state(QueuedState.WAITING_FOR_RESOURCES)
        if not waiting:
            self._wanted.clear()
            return []
        fitting = [
            Due(queued.valid_from or queued.created, queued.name, partial(self._provision, queued.name))
            for queued in waiting
            if self._fits(queued)
        ]
        change = self._placement.next_change(self._clock.now())
        return fitting if change is None else [*fitting, Due(change, _CAPACITY, _look_again)]

    def _fits(self, queued: QueuedRecord) -> bool:
        extras = self._store.extras(queued.name)
        wanted = self._wanted_by(queued)
        return is_reserved(queued.body, extras) or self._placement.has_room(
            [each.node for each in wanted], zone_of(queued)
        )

    def _wanted_by(self, queued: QueuedRecord) -> list[WantedNode]:
        """What it asks for never changes, so it is taken apart once while it waits."""
        if queued.name not in self._wanted:
            extras = self._store.extras(queued.name)
            self._wanted[queued.name] = wanted_nodes(queued.body, last_part(queued.name), extras)
        return self._wanted[queued.name]

    async def _step(self, name: str) -> None:
        with self._store.transaction():
            queued = self._store.queued(name)
            if queued is not None and queued.wake is not None and queued.wake <= self._clock.now():
                self._take_step(queued)

    def _take_step(self, queued: QueuedRecord) -> None:
        steps: dict[int, Callable[[QueuedRecord], None]] = {
            QueuedState.ACCEPTED: self._wait_for_resources,
            QueuedState.WAITING_FOR_RESOURCES: self._expire,
            QueuedState.PROVISIONING: self._suspend,
            QueuedState.ACTIVE: self._suspend,
        }
        steps.get(queued.state, self._stop_waking)(queued)

    def _stop_waking(self, queued: QueuedRecord) -> None:
        self._store.save_queued(replace(queued, wake=None))

    # -- from CREATING to ACTIVE

    @documented(
        "valid-after",
        "A request that is not valid yet stays ACCEPTED, and is provisioned within its interval at the earliest.",
        source="google-cloud-tpu, QueuedResource.QueueingPolicy",
    )
    def accept(self, queued: QueuedRecord) -> QueuedRecord:
        """Its create operation is done."""
        wake = max(self._clock.now() + ACCEPTED_S, queued.valid_from or 0.0)
        accepted = in_state(queued, QueuedState.ACCEPTED, wake=_earlier(wake, queued.valid_until))
        self._store.save_queued(accepted)
        return accepted

    def _wait_for_resources(self, queued: QueuedRecord) -> None:
        now = self._clock.now()
        if queued.valid_until is not None and queued.valid_until <= now:
            self._expire(queued)
            return
        self._store.save_queued(
            in_state(
                queued,
                QueuedState.WAITING_FOR_RESOURCES,
                wake=queued.valid_until,
                valid_from=now + WAITING_S,
            )
        )

    @documented(
        "valid-until",
        "A request that found no resources until the end of its interval is FAILED, and stays until it is deleted.",
        source="cloud.google.com/tpu/docs/queued-resources; google-cloud-tpu, QueuedResourceState.State.FAILED",
    )
    @assumed("valid-until-error", "It failed with code 4; the wording is ours.")
    def _expire(self, queued: QueuedRecord) -> None:
        message = f"The queued resource {last_part(queued.name)} could not be provisioned within its interval."
        self._fail(queued, errors.status_of(code_pb2.DEADLINE_EXCEEDED, message))

    def _fail(self, queued: QueuedRecord, error: status_pb2.Status) -> None:
        self._store.save_queued(in_state(queued, QueuedState.FAILED, error=error, verdict=None))

    async def _provision(self, name: str) -> None:
        with self._store.transaction():
            queued = self._store.queued(name)
            if queued is not None and queued.state == QueuedState.WAITING_FOR_RESOURCES and self._fits(queued):
                self._make_nodes_of(queued)

    def _make_nodes_of(self, queued: QueuedRecord) -> None:
        extras = self._store.extras(queued.name)
        location = location_of(queued.name)
        wanted = self._wanted.pop(queued.name, None) or wanted_nodes(queued.body, last_part(queued.name), extras)
        nodes = [self._new_nodes.make(each.node, location, each.node_id) for each in wanted]
        verdict = self._verdict(queued, nodes)
        if verdict is not None:
            self._fail(queued, verdict)
            return
        has_addresses = self._placement.addresses_left(nodes, location.zone)
        self._save_provisioning(queued, has_addresses)
        for node, each in zip(nodes, wanted, strict=True):
            node.queued_resource, node.multislice_node = queued.name, each.is_multislice
            self._store.save_node(node, queued_resource=queued.name, is_flex=is_flex(extras))
            self._store.place_node(node.name)
            self._store.save_extras(node.name, each.extras)
            self._operations.start("create", node.name)

    def _verdict(self, queued: QueuedRecord, nodes: Sequence[NodePb]) -> status_pb2.Status | None:
        """What it fails of before a node is made: a name that was taken meanwhile, or its reservation (E3)."""
        for node in nodes:
            if self._store.node(node.name) is not None:
                return errors.already_exists(node.name).status
        if not is_reserved(queued.body, self._store.extras(queued.name)):
            return None
        name = queued.body.reservation_name
        return self._placement.reservation_verdict(nodes, zone_of(queued), name=name, is_queued=True)

    @recorded(
        "E10-queued",
        "Without external addresses it is PROVISIONING for a while, then SUSPENDING, then FAILED, and says why.",
        source="notes of two public repositories (2 to 5 min from WAITING_FOR_RESOURCES to FAILED)",
    )
    def _save_provisioning(self, queued: QueuedRecord, has_addresses: bool) -> None:
        verdict = None if has_addresses else verdicts.addresses_used_up()
        wake = None if has_addresses else self._clock.now() + ADDRESSES_VERDICT_S
        self._store.save_queued(in_state(queued, QueuedState.PROVISIONING, wake=wake, verdict=verdict))

    # -- what follows from the nodes

    def settle(self, name: str) -> None:
        """A node of this queued resource has changed or is gone. An empty name is that of none."""
        queued = self._store.queued(name) if name else None
        if queued is None:
            return
        states = [node.state for node in self._store.nodes_of_queued(name)]
        if not states:
            self._without_nodes(queued)
        elif queued.state in (QueuedState.PROVISIONING, QueuedState.ACTIVE):
            self._with_nodes(queued, states)
        elif queued.state == QueuedState.SUSPENDING and set(states) == {State.READY}:  # their deletion was cancelled
            self._activate(queued)

    def _with_nodes(self, queued: QueuedRecord, states: Sequence[int]) -> None:
        if set(states) == {State.DELETING}:
            self._store.save_queued(in_state(queued, QueuedState.SUSPENDING, initiator=Initiator.USER))
        elif State.PREEMPTED in states:
            self._suspend(queued)
        elif queued.state == QueuedState.PROVISIONING:
            self._note_progress(queued, states)

    def _note_progress(self, queued: QueuedRecord, states: Sequence[int]) -> None:
        if len(states) < len(self._all_wanted(queued)):
            self._suspend(replace(queued, verdict=errors.internal_error()))
        elif set(states) == {State.READY} and queued.verdict is None:
            self._activate(queued)

    def _all_wanted(self, queued: QueuedRecord) -> list[WantedNode]:
        return wanted_nodes(queued.body, last_part(queued.name), {})

    def _activate(self, queued: QueuedRecord) -> None:
        ends = run_end(self._store.extras(queued.name), self._clock.now())
        self._store.save_queued(in_state(queued, QueuedState.ACTIVE, wake=ends))

    @documented(
        "queued-suspend",
        "When a node is preempted or the run duration is over, the service deletes all nodes: SUSPENDING, then "
        "SUSPENDED; the queued resource stays until it is deleted and is not provisioned again.",
        source="cloud.google.com/tpu/docs/queued-resources, request-using-flex-start",
    )
    def _suspend(self, queued: QueuedRecord) -> None:
        self._store.save_queued(in_state(queued, QueuedState.SUSPENDING, initiator=Initiator.SERVICE))
        self.delete_nodes(self._store.nodes_of_queued(queued.name))

    @documented(
        "queued-nodes-deleted",
        "A queued resource whose nodes were all deleted is SUSPENDED.",
        source="google-cloud-tpu, QueuedResourceState.State.SUSPENDED",
    )
    @assumed(
        "queued-nodes-failed",
        "When nodes cannot be made, it is SUSPENDING and then FAILED; while some nodes are left, it stays ACTIVE.",
    )
    def _without_nodes(self, queued: QueuedRecord) -> None:
        if queued.state == QueuedState.DELETING:
            self._store.remove_queued(queued.name)
            self._operations.finish_waiting(queued.name)
        elif queued.state == QueuedState.PROVISIONING:
            self._fail(queued, queued.verdict or errors.internal_error())
        elif queued.verdict is not None:
            self._fail(queued, queued.verdict)
        elif queued.state in (QueuedState.ACTIVE, QueuedState.SUSPENDING):
            initiator = queued.body.state.state_initiator or Initiator.USER
            self._store.save_queued(in_state(queued, QueuedState.SUSPENDED, initiator=initiator))

    # -- nodes

    def delete_nodes(self, nodes: Sequence[NodePb]) -> None:
        """Begin to delete nodes; each ends what is in flight for it, and is not billed from now on."""
        with self._operations.planned(Plan()):
            for node in nodes:
                if node.state != State.DELETING:
                    self._delete_node(node)

    def _delete_node(self, node: NodePb) -> None:
        self._operations.abort(node.name)
        before, node.state = node.state, State.DELETING
        self._store.save_node(node)
        self._ledger.node_not_ready(node, self._clock.now())
        self._operations.start("delete", node.name, before)

    def restart_nodes(self, name: str) -> None:
        """The nodes of a queued resource are on their way down and up again."""
        for node in self._store.nodes_of_queued(name):
            if node.state == State.READY:
                node.state = State.RESTARTING
                self._store.save_node(node)
                self._ledger.node_not_ready(node, self._clock.now())


async def _look_again() -> None:
    """After each act the timeline asks what is waiting, and so whether there is room."""


def zone_of(queued: QueuedRecord) -> str:
    return location_of(queued.name).zone


def _earlier(moment: float, bound: float | None) -> float:
    return moment if bound is None else min(moment, bound)
