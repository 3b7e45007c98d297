"""Apply scripted faults to a call before it runs, to the operation that it starts, and to its response."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from email.utils import formatdate
from typing import Any

from google.protobuf.message import Message

from jupyter_tpu.emulator.access.permissions import permission_of
from jupyter_tpu.emulator.api_faults.altered_answers import moved_in_time, seen_by
from jupyter_tpu.emulator.api_faults.faults import Fault
from jupyter_tpu.emulator.api_faults.kinds import Sort
from jupyter_tpu.emulator.api_faults.waiting_faults import Call, FaultTable, made_by
from jupyter_tpu.emulator.engine.half_created import HalfCreated
from jupyter_tpu.emulator.engine.operations import Plan
from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.clock import VirtualClock
from jupyter_tpu.emulator.resources.targets import target_of, zone_of
from jupyter_tpu.emulator.store.database import Store

Perform = Callable[[Plan], Message]
"""A function that performs the call and applies the plan to the operation that the call starts."""

_WIRE = {
    "drop": "reset",
    "applied_then_drop": "reset",
    "empty": "empty",
    "html": "html",
    "truncated": "truncated",
    "unknown_enum": "unknown_enum",
}
_ALWAYS_APPLIED = ("applied_then_drop", "truncated", "unknown_enum")


_skew_s: ContextVar[float] = ContextVar("skew_s", default=0.0)
"""Seconds by which the times in the response to the current task's call are wrong."""


class ScriptedFaults:
    """The faults of one cloud and their effects on its calls."""

    def __init__(self, *, store: Store, clock: VirtualClock, project: str, project_number: str) -> None:
        self.table = FaultTable()
        self.half_created = HalfCreated(store, clock)
        self._store = store
        self._clock = clock
        self._project = project
        self._project_number = project_number

    def clear(self) -> None:
        """Remove all faults, including active ones."""
        self.table = FaultTable()
        self.half_created.clear()

    async def call(self, method: str, request: Any, perform: Perform) -> Message:
        """Perform a call, and apply the scripted faults that affect it.

        Raises:
            Refusal: a fault or the cloud rejects the call.
            WireFault: a fault replaces the response that the transport must send.
        """
        # a connection's task handles many calls, so clear the skew of the previous call
        _skew_s.set(0.0)
        # fast path for nearly every call, so that a cloud without faults loses no time
        if not self.table.waiting:
            return perform(Plan())
        met = self.table.consume(self._call_of(method, request))
        if Sort.SKEW in met:
            _skew_s.set(met[Sort.SKEW].seconds)
        slow = met.get(Sort.LATENCY)
        # delay before performing the call: if the client gives up, the call must have no effect
        if slow is not None and not slow.applied:
            await asyncio.sleep(slow.seconds)
        try:
            return self._answer(method, request, perform, met)
        # delay after performing the call: if the client gives up, the call has an effect that the client doesn't know
        # of
        finally:
            if slow is not None and slow.applied:
                await asyncio.sleep(slow.seconds)

    @assumed(
        "real-date",
        "The Date header of a response is the real time, however fast virtual time runs, because clients compare it"
        " with their own clock.",
    )
    def date(self) -> str:
        """Return the ``Date`` header of the response to the current task's call, even if the call is rejected."""
        return formatdate(time.time() + _skew_s.get(), usegmt=True)

    def _call_of(self, method: str, request: Any) -> Call:
        # for a create call, use the name of the new resource, so that a fault can target it before it exists
        target = made_by(method, request)
        # a fault can also target a call on an operation by the operation's node
        operation = self._store.operation(target)
        return Call(
            method=method,
            target=target,
            about=operation.target if operation else "",
            page_token=str(getattr(request, "page_token", "")),
            now=self._clock.now(),
        )

    def _answer(self, method: str, request: Any, perform: Perform, met: Mapping[str, Fault]) -> Message:
        fault = met.get(Sort.OUTCOME)
        error = self._error_of(fault, method, request) if fault else None
        # fail before performing the call
        if fault is not None and error is not None and not (fault.applied or fault.kind in _ALWAYS_APPLIED):
            raise error
        # perform the call, then possibly return an error: the caller can't know the outcome
        answer = self._seen(request, lambda: self._performed(fault, request, perform), met)
        # truncated and unknown_enum alter the real response, so they need it
        if isinstance(error, errors.WireFault):
            error.answer = answer
        if error is not None:
            raise error
        return answer

    def _performed(self, fault: Fault | None, request: Any, perform: Perform) -> Any:
        """Perform the call so that the fault affects its operation, and return the response unchanged."""
        if fault is None:
            return perform(Plan())
        answer: Any = perform(plan_of(fault, zone_of(target_of(request))))
        if fault.kind == "half_created":
            self.half_created.expect(str(answer.name), fault.seconds)
        return answer

    def _seen(self, request: Any, perform: Callable[[], Any], met: Mapping[str, Fault]) -> Message:
        """Return the response after applying the VIEW and SKEW faults."""
        view, skew, now = met.get(Sort.VIEW), met.get(Sort.SKEW), self._clock.now()
        answer = seen_by(view, request, perform, self._store, now) if view else perform()
        self.table.record_token(str(getattr(answer, "next_page_token", "")), now)
        return moved_in_time(answer, skew.seconds) if skew else answer

    def _error_of(self, fault: Fault, method: str, request: Any) -> errors.Refusal | errors.WireFault | None:
        """Return the error that the fault returns to the caller, or None if the fault lets the call succeed."""
        if fault.kind in _WIRE:
            return errors.WireFault(_WIRE[fault.kind])
        return self._refusal(fault, method, request)

    @assumed("expired-token", "An expired page token is refused with 400, like an invalid one.")
    def _refusal(self, fault: Fault, method: str, request: Any) -> errors.Refusal | None:
        """Return the error that a fault specifies, with the text of the real service."""
        target = target_of(request)
        zone, number = zone_of(target), self._project_number
        # use functions, so that only the error that is returned gets an error ID
        refusals: Mapping[str, Callable[[], errors.Refusal]] = {
            "error": lambda: errors.Refusal(errors.status_of(fault.code, fault.text)),
            "unavailable": lambda: errors.Refusal(errors.status_of(fault.code, fault.text)),
            "rate": lambda: errors.Refusal(errors.status_of(fault.code, fault.text)),
            "flaky_zone": errors.zone_unavailable,
            "quota": lambda: errors.quota_exceeded(
                fault.quota_id or "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI", fault.limit, zone, number
            ),
            "api_disabled": lambda: errors.api_disabled(number),
            "permission_denied": lambda: errors.permission_denied(permission_of(method), target),
            "not_allowlisted": lambda: not_allowlisted(request, zone),
            "location_denied": lambda: errors.zone_unknown(zone, self._project),
            "expired_token": lambda: errors.bad_field("page_token", "page_token is not valid"),
        }
        make = refusals.get(fault.kind)
        return make() if make else None


def not_allowlisted(request: Any, zone: str) -> errors.Refusal:
    """Return the error for a type that the project may not use. A queued resource is represented by its first node."""
    if "node" in request.DESCRIPTOR.fields_by_name:
        return errors.not_allowlisted(str(request.node.accelerator_type), zone)
    types = [str(spec.node.accelerator_type) for spec in request.queued_resource.tpu.node_spec]
    return errors.not_allowlisted_in_queue(types[0] if types else "", zone)


def plan_of(fault: Fault, zone: str) -> Plan:
    """Return the fault's plan for the operation that the call starts."""
    if fault.kind == "stockout":
        return Plan(verdict=errors.stockout(zone))
    if fault.kind in ("operation_error", "half_created"):
        return Plan(verdict=errors.status_of(fault.code, fault.text))
    return Plan(is_stuck=fault.kind == "stuck")
