"""The core behind gRPC and REST: given a method's name and a request, return the response or raise a `Refusal`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.api_faults.scripted import ScriptedFaults
from jupyter_tpu.emulator.dispatch import Dispatcher
from jupyter_tpu.emulator.effects import Effects
from jupyter_tpu.emulator.engine.operations import OperationAgenda, Operations, Plan
from jupyter_tpu.emulator.engine.timeline import Agenda, Timeline
from jupyter_tpu.emulator.engine.virtual_time import VirtualTime, restored_clock
from jupyter_tpu.emulator.limits.placement import Placement
from jupyter_tpu.emulator.limits.project import Switches
from jupyter_tpu.emulator.limits.rules import Rules
from jupyter_tpu.emulator.maintenance.maintenance import Maintenance
from jupyter_tpu.emulator.maintenance.methods import MaintenanceMethods
from jupyter_tpu.emulator.nodes.methods import Nodes
from jupyter_tpu.emulator.nodes.new_nodes import NewNodes
from jupyter_tpu.emulator.nodes.node_expiry import NodeExpiry
from jupyter_tpu.emulator.nodes.preemption_notices import PreemptionNotices
from jupyter_tpu.emulator.nodes.reference import Reference
from jupyter_tpu.emulator.queued_resources.agenda import Queue
from jupyter_tpu.emulator.queued_resources.methods import QueuedResources
from jupyter_tpu.emulator.queued_resources.nodes import QueueNodes
from jupyter_tpu.emulator.queued_resources.queue_effects import QueueEffects
from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.clock import RealTime
from jupyter_tpu.emulator.resources.protos import State
from jupyter_tpu.emulator.resources.request import ApiRequest, with_project_id
from jupyter_tpu.emulator.resources.targets import target_of
from jupyter_tpu.emulator.store.database import Store
from jupyter_tpu.emulator.store.holdings import Held
from jupyter_tpu.emulator.store.ledger import Ledger
from jupyter_tpu.emulator.workers.workers import Workers

_log = logging.getLogger(__name__)

PROJECT_NUMBER = "123456789012"

READING = ("Get", "List")
"""Prefixes of the read-only methods, after which the timeline has no new due actions."""

Handler = Callable[[ApiRequest], Message]


class Cloud:
    """The emulated cloud of one project. `start` restores the contents of the state folder.

    `real_time` returns the real seconds from which virtual time is computed. If `shows_time` is true, each response
    contains the virtual time.
    """

    def __init__(
        self,
        *,
        project: str,
        state_dir: Path,
        time_scale: float | None,
        workers: Workers,
        real_time: RealTime = time.monotonic,
        shows_time: bool = False,
    ) -> None:
        self.project = project
        self.shows_time = shows_time
        self.project_number = PROJECT_NUMBER
        self.store = Store(state_dir / "cloud.db")
        # virtual time must not go back behind the time that clients saw before a restart
        start = self.store.latest_moment() or time.time()
        self.clock = restored_clock(self.store, start=start, scale=time_scale, real_time=real_time)
        self.store.date_by(self.clock.now)
        self.ledger = Ledger(self.store)
        self.rules = Rules(self.store, now=self.clock.now, project_id=project, project_number=PROJECT_NUMBER)
        self.scripted = ScriptedFaults(
            store=self.store, clock=self.clock, project=project, project_number=PROJECT_NUMBER
        )
        self.workers = workers
        # use a lambda, because the dispatcher is created later: it needs the operations
        self.operations = Operations(self.store, self.clock, lambda operation: self._dispatcher.roll_back(operation))
        self._new_nodes = NewNodes(self.clock, PROJECT_NUMBER)
        self._queue_nodes = QueueNodes(self.store, self.clock, self.ledger, self.operations)
        # nodes and queue share the placement, because they compete for the same chips
        placement = Placement(self.store, self.rules)
        self.queue = Queue(
            store=self.store,
            clock=self.clock,
            operations=self.operations,
            nodes=self._queue_nodes,
            placement=placement,
            new_nodes=self._new_nodes,
        )
        self.effects = Effects(
            store=self.store,
            clock=self.clock,
            ledger=self.ledger,
            workers=workers,
            worker_count=lambda accelerator_type: accelerators.accelerator(accelerator_type).workers,
            operations=self.operations,
            placement=placement,
            half_created=self.scripted.half_created,
            queue=self.queue,
        )
        self._dispatcher = Dispatcher(self.store, self.operations, self.effects, self._queue_effects())
        self.maintenance = Maintenance(
            store=self.store,
            clock=self.clock,
            ledger=self.ledger,
            operations=self.operations,
            workers=workers,
            node_changed=self.effects.node_changed,
            notice_changed=workers.notify_change,
        )
        # the objects that have agendas
        self.notices = PreemptionNotices(self.store, self.clock, self.effects.preempt, workers.notify_change)
        self.timeline = Timeline(self.clock, self._agendas())
        self.time = VirtualTime(self.store, self.clock, self.timeline)
        workers.attach(self)
        self._handlers = self._all_handlers()

    def _queue_effects(self) -> QueueEffects:
        return QueueEffects(
            store=self.store,
            clock=self.clock,
            ledger=self.ledger,
            operations=self.operations,
            queue=self.queue,
            workers=self.workers,
        )

    def _agendas(self) -> list[Agenda]:
        return [
            OperationAgenda(self.store, self._dispatcher.perform),
            self.queue,
            NodeExpiry(self.store, self.notices),
            self.notices,
            self.maintenance,
            self.scripted.half_created,
        ]

    async def start(self) -> None:
        """Start the workers of READY nodes and continue with operations in progress."""
        nodes = self.store.nodes()
        # restore endpoints before a new node can take them
        self.effects.restore_endpoints(nodes)
        # worker processes keep running if the emulator is killed
        await self.workers.kill_strays(node for node in nodes if node.state not in (State.STOPPED, State.PREEMPTED))
        for node in nodes:
            if node.state == State.READY:
                await self.workers.start(node)
        self.timeline.arm()

    async def close(self) -> None:
        """Cancel running actions, stop all workers, store the virtual time and close the store."""
        await self.timeline.close()
        await self.workers.close()
        self.store_now()
        self.store.close()

    async def reset(self) -> None:
        """Delete everything in the project, remove faults and limits, and reset the scale of virtual time."""
        await self.timeline.close()
        await self.workers.remove_all()
        with self.store.transaction():
            # use one transaction, so that a reset that is interrupted changes either everything or nothing
            self.store.clear()
            self.rules.clear()
            self.maintenance.clear()
            self.scripted.clear()
        self.time.reset()
        self.timeline.arm()

    def store_now(self) -> float:
        """Return the current time and store it, so that the clock does not go backwards after a crash."""
        with self.store.transaction():
            return self.clock.now()

    @property
    def methods(self) -> frozenset[str]:
        """The names of all methods that the emulator implements."""
        return frozenset(self._handlers)

    @property
    def switches(self) -> Switches:
        """The project's settings, as set through the control API."""
        return self.rules.project.switches

    def held(self) -> list[Held]:
        """Return everything that counts against quotas: nodes in any state, and queued resources without nodes."""
        return [*self.store.held_nodes(), *self.store.held_by_queue()]

    def extras_of(self, name: str) -> Mapping[str, Any]:
        """Return the fields of a node or queued resource that v2 lacks, in camelCase, nested as in REST."""
        return self.store.extras(name)

    async def call(self, call: ApiRequest) -> Message:
        """Perform one API call; the response is a message of v2.

        Raises:
            Refusal: the call is rejected.
            WireFault: a scripted fault replaces the response that the transport sends.
        """
        # the store uses only names with the project ID
        call = with_project_id(call, self.project, PROJECT_NUMBER)
        return await self.scripted.call(call.method, call.request, lambda plan: self._guarded_answer(call, plan))

    def _guarded_answer(self, call: ApiRequest, plan: Plan) -> Message:
        """Handle a request; log a bug in the emulator and report it like an internal error of the real service."""
        try:
            return self._answer(call, plan)
        except errors.Refusal:
            raise
        except Exception as error:
            _log.exception("%s failed", call.method)
            raise errors.Refusal(errors.internal_error()) from error

    def _answer(self, call: ApiRequest, plan: Plan) -> Message:
        # the order of the checks is assumed (behaviour `refusal-order`)
        handler = self._handlers.get(call.method)
        if handler is None:
            # a method of the real API that the emulator doesn't implement has a rule, but no handler
            raise errors.unimplemented(call.method)
        self._check_zone(call.method, call.request)
        self.rules.admission.check_call(call.method, target_of(call.request))
        # use one transaction, so that an error halfway leaves nothing behind
        with self.store.transaction(), self.operations.planned(plan, call.version):
            answer = self._answer_once(handler, call)
        # a read doesn't change any due time
        if not call.method.startswith(READING):
            self.timeline.arm()
        return answer

    def _answer_once(self, handler: Handler, call: ApiRequest) -> Message:
        """Handle a request. If its request id is repeated, return the earlier operation."""
        known = self.operations.repeated(call)
        if known is not None:
            return known
        answer = handler(call)
        self.operations.remember(call, answer)
        return answer

    @assumed("foreign-project", "Access to any project other than the emulated one (by id or number) is denied.")
    def _check_zone(self, method: str, request: Any) -> None:
        """Raise an error if the request is for another project or for an unknown zone."""
        _, project, *rest = [*target_of(request).split("/"), "", "", ""]
        if project not in (self.project, PROJECT_NUMBER):
            raise errors.project_denied(project)
        zone = rest[1]
        is_wildcard = zone == "-" and method.startswith("List")
        if zone and not is_wildcard and zone not in accelerators.zones():
            raise errors.zone_unknown(zone, self.project)

    def _all_handlers(self) -> dict[str, Handler]:
        nodes = Nodes(
            store=self.store,
            clock=self.clock,
            ledger=self.ledger,
            rules=self.rules,
            new_nodes=self._new_nodes,
            operations=self.operations,
            guests=self.workers,
            on_metadata=self.workers.update_keys,
            settle=self.queue.settle,
        )
        reference = Reference(PROJECT_NUMBER)
        handlers: dict[str, Callable[[Any], Message]] = {
            "ListNodes": nodes.list_nodes,
            "GetNode": nodes.get_node,
            "StopNode": nodes.stop_node,
            "StartNode": nodes.start_node,
            "DeleteNode": nodes.delete_node,
            "GetGuestAttributes": nodes.get_guest_attributes,
            "ListAcceleratorTypes": reference.list_accelerator_types,
            "GetAcceleratorType": reference.get_accelerator_type,
            "ListRuntimeVersions": reference.list_runtime_versions,
            "GetRuntimeVersion": reference.get_runtime_version,
            "ListLocations": reference.list_locations,
            "GetLocation": reference.get_location,
            "GenerateServiceIdentity": reference.generate_service_identity,
            "GetOperation": self.operations.get_operation,
            "ListOperations": self.operations.list_operations,
            "CancelOperation": self.operations.cancel_operation,
            "DeleteOperation": self.operations.delete_operation,
        }
        return {
            # the simple handlers need only the request; the others also need its version and extras
            **{method: of_request(handler) for method, handler in handlers.items()},
            "CreateNode": nodes.create_node,
            "UpdateNode": nodes.update_node,
            "ListReservations": self._list_reservations,
            **self._queued_resources().handlers(),
            **MaintenanceMethods(self.store, self.operations, self.maintenance).handlers(),
        }

    def _queued_resources(self) -> QueuedResources:
        return QueuedResources(
            store=self.store,
            clock=self.clock,
            rules=self.rules,
            operations=self.operations,
            new_nodes=self._new_nodes,
            nodes=self._queue_nodes,
        )

    def _list_reservations(self, call: ApiRequest) -> Message:
        return self.rules.reservations.list_reservations(call.request, self.store.occupying_nodes())


def of_request(handler: Callable[[Any], Message]) -> Handler:
    """Return a `Handler` that calls `handler` with only the call's request."""
    return lambda call: handler(call.request)
