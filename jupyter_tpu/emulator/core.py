"""The one core behind both skins: a method's name and its request in, the answer or a `Refusal` out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from jupyter_tpu import accelerators
from jupyter_tpu.emulator import errors
from jupyter_tpu.emulator.behaviours import assumed
from jupyter_tpu.emulator.clock import VirtualClock
from jupyter_tpu.emulator.effects import Effects
from jupyter_tpu.emulator.faults import Fault, FaultTable
from jupyter_tpu.emulator.ledger import Ledger
from jupyter_tpu.emulator.nodes import Nodes
from jupyter_tpu.emulator.operations import Operations, Plan
from jupyter_tpu.emulator.protos import State
from jupyter_tpu.emulator.quotas import Quotas
from jupyter_tpu.emulator.reference import Reference
from jupyter_tpu.emulator.store import Store
from jupyter_tpu.emulator.timeline import Timeline
from jupyter_tpu.emulator.workers import Workers

_log = logging.getLogger(__name__)

PROJECT_NUMBER = "123456789012"

Handler = Callable[[Any], Message]


class Cloud:
    """The emulated cloud of one project. `start` brings back what the state folder holds."""

    def __init__(self, *, project: str, state_dir: Path, time_scale: float, workers: Workers) -> None:
        self.project = project
        self._time_scale = time_scale
        self.store = Store(state_dir / "cloud.db")
        self.clock = VirtualClock(start=self.store.latest_moment() or time.time(), scale=time_scale)
        self.store.date_by(self.clock.now)
        self.ledger = Ledger(self.store)
        self.quotas = Quotas()
        self.faults = FaultTable()
        self.workers = workers
        self.effects = Effects(
            store=self.store,
            clock=self.clock,
            ledger=self.ledger,
            workers=workers,
            worker_count=lambda accelerator_type: accelerators.accelerator(accelerator_type).workers,
        )
        self.operations = Operations(self.store, self.clock, self.effects.roll_back)
        self.effects.record_outcomes_in(self.operations)
        self.timeline = Timeline(self.store, self.clock, self.effects.perform)
        self._handlers = self._all_handlers()

    async def start(self) -> None:
        """Workers of READY nodes come up again, and operations in flight go on."""
        nodes = self.store.nodes()
        await self.workers.end_strays(node for node in nodes if node.state not in (State.STOPPED, State.PREEMPTED))
        for node in nodes:
            if node.state == State.READY:
                await self.workers.start(node)
        self.timeline.arm()

    async def close(self) -> None:
        await self.timeline.close()
        await self.workers.close()
        self.told_time()
        self.store.close()

    async def reset(self) -> None:
        """Back to an empty project without faults and limits, in time as it ran at the start."""
        await self.timeline.close()
        await self.workers.remove_all()
        with self.store.transaction():
            self.store.clear()
        self.faults.clear()
        self.quotas.limits.clear()
        self.clock.set_scale(self._time_scale)
        self.timeline.arm()

    def told_time(self) -> float:
        """The time now, stored: what was told to anybody does not come again after a crash."""
        with self.store.transaction():
            return self.clock.now()

    @property
    def methods(self) -> frozenset[str]:
        return frozenset(self._handlers)

    async def call(self, method: str, request: Any) -> Message:
        """Perform one call of the API.

        Raises:
            Refusal: the cloud says no.
            ConnectionDropped: a scripted fault; the skin breaks the connection.
        """
        fault = self.faults.take(method)
        if fault is not None:
            await self._before(fault, method, request)
        answer = self._guarded_answer(method, request, fault)
        if fault is not None and fault.kind == "applied_then_drop":
            raise errors.ConnectionDropped
        return answer

    def _guarded_answer(self, method: str, request: Any, fault: Fault | None) -> Message:
        """A defect of ours answers as those of the real service do, and is logged."""
        try:
            return self._answer(method, request, fault)
        except errors.Refusal:
            raise
        except Exception as error:
            _log.exception("%s failed", method)
            raise errors.Refusal(errors.internal_error()) from error

    def _answer(self, method: str, request: Any, fault: Fault | None) -> Message:
        handler = self._handlers.get(method)
        if handler is None:
            raise errors.unimplemented(method)
        zone = self._checked_zone(method, request)
        with self.store.transaction(), self.operations.planned(plan_of(fault, zone)):
            answer = handler(request)
        self.timeline.arm()
        return answer

    async def _before(self, fault: Fault, method: str, request: Any) -> None:
        if fault.kind == "latency":
            await asyncio.sleep(fault.seconds)
        elif fault.kind == "drop":
            raise errors.ConnectionDropped
        refusal = self._refusal(fault, method, request)
        if refusal is not None:
            raise refusal

    def _refusal(self, fault: Fault, method: str, request: Any) -> errors.Refusal | None:
        """The refusal that a fault asks for, in the words of the real service."""
        target = target_of(request)
        zone = zone_of(target)
        asked_type = request.node.accelerator_type if method == "CreateNode" else ""
        refusals: Mapping[str, Callable[[], errors.Refusal]] = {
            "error": lambda: errors.Refusal(errors.status_of(fault.code, fault.message)),
            "unavailable": lambda: errors.Refusal(errors.status_of(fault.code, fault.message)),
            "quota": lambda: errors.quota_exceeded(
                fault.quota_id or "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI", fault.limit, zone, PROJECT_NUMBER
            ),
            "api_disabled": lambda: errors.api_disabled(PROJECT_NUMBER),
            "permission_denied": lambda: errors.permission_denied(permission_of(method), target),
            "not_allowlisted": lambda: errors.not_allowlisted(asked_type, zone),
            "location_denied": lambda: errors.zone_unknown(zone, self.project),
        }
        make = refusals.get(fault.kind)
        return make() if make else None

    @assumed("foreign-project", "Any project but the emulator's own (by id or number) is one that may not be read.")
    def _checked_zone(self, method: str, request: Any) -> str:
        """The zone that a request is about; refuses foreign projects and unknown zones."""
        _, project, *rest = [*target_of(request).split("/"), "", "", ""]
        if project not in (self.project, PROJECT_NUMBER):
            raise errors.project_denied(project)
        zone = rest[1]
        is_wildcard = zone == "-" and method.startswith("List")
        if zone and not is_wildcard and zone not in accelerators.zones():
            raise errors.zone_unknown(zone, self.project)
        return zone

    def _all_handlers(self) -> dict[str, Handler]:
        nodes = Nodes(
            store=self.store,
            clock=self.clock,
            ledger=self.ledger,
            quotas=self.quotas,
            operations=self.operations,
            guests=self.workers,
            project_number=PROJECT_NUMBER,
            on_metadata=self.workers.update_keys,
        )
        reference = Reference()
        return {
            "ListNodes": nodes.list_nodes,
            "GetNode": nodes.get_node,
            "CreateNode": nodes.create_node,
            "DeleteNode": nodes.delete_node,
            "StopNode": nodes.stop_node,
            "StartNode": nodes.start_node,
            "UpdateNode": nodes.update_node,
            "GetGuestAttributes": nodes.get_guest_attributes,
            "ListAcceleratorTypes": reference.list_accelerator_types,
            "GetAcceleratorType": reference.get_accelerator_type,
            "ListRuntimeVersions": reference.list_runtime_versions,
            "GetRuntimeVersion": reference.get_runtime_version,
            "ListLocations": reference.list_locations,
            "GetLocation": reference.get_location,
            "GetOperation": self.operations.get_operation,
            "ListOperations": self.operations.list_operations,
            "CancelOperation": self.operations.cancel_operation,
            "DeleteOperation": self.operations.delete_operation,
        }


def plan_of(fault: Fault | None, zone: str) -> Plan:
    """What a fault wants of the operation that the call starts."""
    if fault is None:
        return Plan()
    if fault.kind == "stockout":
        return Plan(verdict=errors.stockout(zone))
    if fault.kind == "operation_error":
        return Plan(verdict=errors.status_of(fault.code, fault.message))
    return Plan(is_stuck=fault.kind == "stuck")


def target_of(request: Any) -> str:
    """The resource that a request names."""
    fields = request.DESCRIPTOR.fields_by_name
    if "parent" in fields:
        return str(request.parent)
    return str(request.name if "name" in fields else request.node.name)


def zone_of(target: str) -> str:
    parts = target.split("/")
    return parts[3] if len(parts) > 3 else ""


def permission_of(method: str) -> str:
    """``CreateNode`` → ``tpu.nodes.create``, as IAM names permissions."""
    for verb in ("List", "Get", "Create", "Delete", "Stop", "Start", "Update", "Cancel"):
        if method.startswith(verb):
            noun = method.removeprefix(verb).rstrip("s")
            return f"tpu.{noun[0].lower()}{noun[1:]}s.{verb.lower()}"
    return f"tpu.{method}"
