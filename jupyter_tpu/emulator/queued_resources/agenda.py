"""Change the state of queued resources, by scheduled steps and when their nodes change.

CREATING → ACCEPTED → WAITING_FOR_RESOURCES → PROVISIONING → ACTIVE → SUSPENDING → SUSPENDED or FAILED; DELETING from
any state. Every pending step is stored, so that the next emulator can continue if this one is killed. Code that changes
a node of a queued resource calls `settle` in the same transaction.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from google.rpc import code_pb2, status_pb2

from jupyter_tpu.emulator.engine.operations import AT_ONCE, Operations
from jupyter_tpu.emulator.engine.timeline import Due
from jupyter_tpu.emulator.limits.placement import Placement
from jupyter_tpu.emulator.nodes.new_nodes import NewNodes
from jupyter_tpu.emulator.queued_resources.nodes import QueueNodes
from jupyter_tpu.emulator.queued_resources.records import in_state
from jupyter_tpu.emulator.queued_resources.specs import (
    CapacityRequest,
    capacity_request,
    is_flex,
    is_reserved,
    run_end,
    wanted_nodes,
)
from jupyter_tpu.emulator.resources import errors, operation_errors
from jupyter_tpu.emulator.resources.behaviours import assumed, documented, recorded
from jupyter_tpu.emulator.resources.clock import VirtualClock
from jupyter_tpu.emulator.resources.names import last_part, location_of
from jupyter_tpu.emulator.resources.protos import Initiator, NodePb, QueuedState, State, new
from jupyter_tpu.emulator.resources.records import QueuedRecord
from jupyter_tpu.emulator.resources.terminations import with_termination
from jupyter_tpu.emulator.store.database import Store

# virtual seconds, assumed (behaviour `queue-durations`)
ACCEPTED_S = 10.0
WAITING_S = 15.0
ADDRESSES_VERDICT_S = 60.0  # shorter than the 2 to 5 min until FAILED in public reports (behaviour `E10-queued`)
_CAPACITY = "capacity"


@assumed(
    "queue-durations",
    "In virtual time, a queued resource is CREATING for 5 s, ACCEPTED for 10 s and WAITING_FOR_RESOURCES for at"
    " least 15 s. Creating its nodes takes 90 s, and deleting them takes 30 s.",
)
class Queue:
    """The queued resources of one project; the oldest one is provisioned first."""

    def __init__(
        self,
        *,
        store: Store,
        clock: VirtualClock,
        operations: Operations,
        nodes: QueueNodes,
        placement: Placement,
        new_nodes: NewNodes,
    ) -> None:
        self._store = store
        self._clock = clock
        self._operations = operations
        self._nodes = nodes
        self._placement = placement
        self._new_nodes = new_nodes
        self._requests: dict[str, CapacityRequest] = {}

    # -- the agenda

    def waiting(self) -> list[Due]:
        """Return the next scheduled steps, and one provisioning step for each queued resource that has capacity."""
        steps = [Due(moment, name, partial(self._step, name)) for moment, name in self._store.waking_queued(AT_ONCE)]
        return steps + self._due_for_capacity()

    def _due_for_capacity(self) -> list[Due]:
        """Return an action for each queued resource that has capacity now, and one for the next capacity change."""
        waiting = self._store.queued_waiting()
        self._forget_requests_but({name for _, name in waiting})
        if not waiting:
            return []
        # cached, because with 300 waiting requests, each call would otherwise count all nodes 300 times
        has_room = functools.cache(self._room())
        fitting = [
            Due(moment, name, partial(self._provision, name))
            for moment, name in waiting
            if self._request(name).can_be_provisioned(has_room)
        ]
        change = self._placement.next_change(self._clock.now())
        return fitting if change is None else [*fitting, Due(change, _CAPACITY, _recheck)]

    def _forget_requests_but(self, waiting: set[str]) -> None:
        for name in self._requests.keys() - waiting:
            del self._requests[name]

    def _room(self) -> Callable[[str, tuple[str, ...]], bool]:
        """Return a function that returns whether a zone currently has capacity for nodes of the given types."""
        held = self._store.occupying_nodes()
        return lambda zone, types: self._placement.has_room([node_of(each) for each in types], zone, held)

    def _request(self, name: str) -> CapacityRequest:
        """Return the resource's request; it never changes, so it is parsed only once while the resource waits."""
        if name not in self._requests:
            queued = self._store.queued(name)
            assert queued is not None, f"{name} waits"
            self._requests[name] = capacity_request(queued, self._store.extras(name))
        return self._requests[name]

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
        """Cancel the scheduled next step of a queued resource whose state needs no further step."""
        self._store.save_queued(replace(queued, wake=None))

    # -- transitions from CREATING to ACTIVE

    @documented(
        "valid-after",
        "A request that is not yet valid stays ACCEPTED, and is not provisioned before its interval starts.",
        source="google-cloud-tpu, QueuedResource.QueueingPolicy",
    )
    def accept(self, queued: QueuedRecord) -> QueuedRecord:
        """Accept a request whose create operation has finished."""
        wake = max(self._clock.now() + ACCEPTED_S, queued.valid_from or 0.0)
        accepted = in_state(queued, QueuedState.ACCEPTED, wake=_earlier(wake, queued.valid_until))
        self._store.save_queued(accepted)
        return accepted

    def _wait_for_resources(self, queued: QueuedRecord) -> None:
        now = self._clock.now()
        # the request's validity interval may have ended while the request was ACCEPTED
        if queued.valid_until is not None and queued.valid_until <= now:
            self._expire(queued)
            return
        self._store.save_queued(
            in_state(
                queued,
                QueuedState.WAITING_FOR_RESOURCES,
                wake=queued.valid_until,
                # from here on, `valid_from` is the earliest time at which the request may be provisioned
                valid_from=now + WAITING_S,
            )
        )

    @documented(
        "valid-until",
        "A request that gets no resources by the end of its interval becomes FAILED, and is kept until it is deleted.",
        source="cloud.google.com/tpu/docs/queued-resources; google-cloud-tpu, QueuedResourceState.State.FAILED",
    )
    @assumed(
        "valid-until-error",
        "A queued resource that did not get resources in time fails with code 4; the message is invented.",
    )
    def _expire(self, queued: QueuedRecord) -> None:
        message = f"The queued resource {last_part(queued.name)} could not be provisioned within its interval."
        self._fail(queued, errors.status_of(code_pb2.DEADLINE_EXCEEDED, message))

    def _fail(self, queued: QueuedRecord, error: status_pb2.Status) -> None:
        self._store.save_queued(in_state(queued, QueuedState.FAILED, error=error, verdict=None))

    async def _provision(self, name: str) -> None:
        with self._store.transaction():
            queued = self._store.queued(name)
            # since the requests were listed, the capacity may have been used or the request deleted
            is_waiting = queued is not None and queued.state == QueuedState.WAITING_FOR_RESOURCES
            if queued is not None and is_waiting and self._request(name).can_be_provisioned(self._room()):
                self._create_nodes_of(queued)

    def _create_nodes_of(self, queued: QueuedRecord) -> None:
        extras = self._store.extras(queued.name)
        location = location_of(queued.name)
        wanted = wanted_nodes(queued.body, last_part(queued.name), extras)
        nodes = [self._new_nodes.make(each.node, location, each.node_id) for each in wanted]
        # while the request was waiting, a name may have been taken or a reservation reduced
        verdict = self._verdict(queued, nodes)
        if verdict is not None:
            self._fail(queued, verdict)
            return
        has_addresses = self._placement.addresses_left(nodes, location.zone)
        # create the nodes even without addresses: the real service fails such a request only minutes later
        self._save_provisioning(queued, has_addresses)
        # create all nodes at once: a slice or multislice starts completely or not at all
        for node, each in zip(nodes, wanted, strict=True):
            node.queued_resource, node.multislice_node = queued.name, each.is_multislice
            self._store.save_node(node, queued_resource=queued.name, is_flex=is_flex(extras))
            self._store.place_node(node.name)
            self._store.save_extras(node.name, each.extras)
            self._operations.start("create", node.name)

    def _verdict(self, queued: QueuedRecord, nodes: Sequence[NodePb]) -> status_pb2.Status | None:
        """Return the error that prevents creating the nodes, or None.

        The nodes can't be created if a node's name is in use or if the reservation doesn't fit.
        """
        for node in nodes:
            if self._store.node(node.name) is not None:
                return errors.already_exists(node.name).status
        if not is_reserved(queued.body, self._store.extras(queued.name)):
            return None
        name = queued.body.reservation_name
        return self._placement.reservation_verdict(nodes, zone_of(queued), name=name, is_queued=True)

    @recorded(
        "E10-queued",
        "Without external addresses a queued resource is PROVISIONING for a while, then SUSPENDING, then FAILED, and "
        "shows the reason.",
        source="notes of two public repositories (2 to 5 min from WAITING_FOR_RESOURCES to FAILED)",
    )
    def _save_provisioning(self, queued: QueuedRecord, has_addresses: bool) -> None:
        verdict = None if has_addresses else operation_errors.addresses_used_up()
        wake = None if has_addresses else self._clock.now() + ADDRESSES_VERDICT_S
        self._store.save_queued(in_state(queued, QueuedState.PROVISIONING, wake=wake, verdict=verdict))

    # -- updates after changes to nodes

    def settle(self, name: str) -> None:
        """Update this queued resource after a change of one of its nodes; ignore an empty name."""
        queued = self._store.queued(name) if name else None
        if queued is None:
            return
        states = [node.state for node in self._store.nodes_of_queued(name)]
        if not states:
            self._without_nodes(queued)
        elif queued.state in (QueuedState.PROVISIONING, QueuedState.ACTIVE):
            self._with_nodes(queued, states)
        elif queued.state == QueuedState.SUSPENDING and set(states) == {State.READY}:  # all deletions were cancelled
            self._activate(queued)

    def is_ending(self, name: str) -> bool:
        """Return whether a queued resource's nodes are being deleted permanently; return False for an empty name."""
        queued = self._store.queued(name) if name else None
        if queued is None:
            return False
        # a suspension by the user can be cancelled, which keeps the nodes; a suspension by the service can't
        is_by_service = queued.body.state.state_initiator == Initiator.SERVICE
        return queued.state == QueuedState.DELETING or (queued.state == QueuedState.SUSPENDING and is_by_service)

    def _with_nodes(self, queued: QueuedRecord, states: Sequence[int]) -> None:
        if set(states) == {State.DELETING}:
            suspending = in_state(queued, QueuedState.SUSPENDING, initiator=Initiator.USER, wake=queued.wake)
            self._store.save_queued(suspending)
        elif State.PREEMPTED in states:
            self._suspend(queued)
        elif queued.state == QueuedState.PROVISIONING:
            self._follow_progress(queued, states)

    def _follow_progress(self, queued: QueuedRecord, states: Sequence[int]) -> None:
        # a node disappeared during creation, and the other nodes are useless without it
        if len(states) < len(wanted_nodes(queued.body, last_part(queued.name), {})):
            self._suspend(replace(queued, verdict=errors.internal_error()))
        elif set(states) == {State.READY} and queued.verdict is None:
            self._activate(queued)

    def _activate(self, queued: QueuedRecord) -> None:
        # the end is already set if a deletion of the nodes was cancelled: a cancellation must not extend the run
        ends = queued.wake or run_end(self._store.extras(queued.name), self._clock.now())
        self._store.save_queued(in_state(queued, QueuedState.ACTIVE, wake=ends))
        if ends is None:
            return
        for node in self._store.nodes_of_queued(queued.name):
            self._store.save_extras(node.name, with_termination(self._store.extras(node.name), ends))

    @documented(
        "queued-suspend",
        "When a node is pre-empted or its run duration is over, the service deletes all nodes of the queued "
        "resource, which becomes SUSPENDING and then SUSPENDED. The queued resource is kept until it is deleted, "
        "and is not provisioned again.",
        source="cloud.google.com/tpu/docs/queued-resources, request-using-flex-start",
    )
    def _suspend(self, queued: QueuedRecord) -> None:
        self._store.save_queued(in_state(queued, QueuedState.SUSPENDING, initiator=Initiator.SERVICE))
        self._nodes.delete(self._store.nodes_of_queued(queued.name))

    @documented(
        "queued-nodes-deleted",
        "A queued resource whose nodes were all deleted is SUSPENDED.",
        source="google-cloud-tpu, QueuedResourceState.State.SUSPENDED",
    )
    @assumed(
        "queued-nodes-failed",
        "If its nodes cannot be created, a queued resource becomes SUSPENDING and then FAILED. It stays ACTIVE "
        "while some of its nodes are left.",
    )
    def _without_nodes(self, queued: QueuedRecord) -> None:
        if queued.state == QueuedState.DELETING:
            self._store.remove_queued(queued.name)
            # the deletion of the queued resource was waiting for its last node
            self._operations.finish_waiting(queued.name)
        elif queued.state == QueuedState.PROVISIONING:
            # no node started
            self._fail(queued, queued.verdict or errors.internal_error())
        elif queued.verdict is not None:
            self._fail(queued, queued.verdict)
        elif queued.state in (QueuedState.ACTIVE, QueuedState.SUSPENDING):
            initiator = queued.body.state.state_initiator or Initiator.USER
            self._store.save_queued(in_state(queued, QueuedState.SUSPENDED, initiator=initiator))


async def _recheck() -> None:
    """Do nothing. After each action, the timeline calls `Queue.waiting` again, which checks the capacity."""


def node_of(accelerator_type: str) -> NodePb:
    """Return a node of this type, with no other field set."""
    return new("Node", accelerator_type=accelerator_type)


def zone_of(queued: QueuedRecord) -> str:
    """Return the zone of a queued resource."""
    return location_of(queued.name).zone


def _earlier(moment: float, bound: float | None) -> float:
    return moment if bound is None else min(moment, bound)
