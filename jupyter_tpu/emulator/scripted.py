"""What a scripted fault does to the call that it hits: before the call, to its operation, and to its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.message import Message

from jupyter_tpu.emulator import errors
from jupyter_tpu.emulator.faults import Fault, FaultTable
from jupyter_tpu.emulator.operations import Plan
from jupyter_tpu.emulator.targets import permission_of, target_of, zone_of

Perform = Callable[[Plan], Message]
"""Performs the call; the operation that it starts follows the plan."""


class ScriptedFaults:
    """The faults of one cloud, and what they do to its calls."""

    def __init__(self, *, project: str, project_number: str) -> None:
        self.table = FaultTable()
        self._project = project
        self._project_number = project_number

    async def call(self, method: str, request: Any, perform: Perform) -> Message:
        """Perform a call as the fault that it meets wants it.

        Raises:
            Refusal: a fault refuses the call, or the cloud does.
            WireFault: the skin shall send something else than the answer.
        """
        fault = self.table.take(method)
        if fault is None:
            return perform(Plan())
        await self._before(fault, method, request)
        answer = perform(plan_of(fault, zone_of(target_of(request))))
        if fault.kind == "applied_then_drop":
            raise errors.WireFault("reset", answer)
        return answer

    async def _before(self, fault: Fault, method: str, request: Any) -> None:
        if fault.kind == "latency":
            await asyncio.sleep(fault.seconds)
        elif fault.kind == "drop":
            raise errors.WireFault("reset")
        refusal = self._refusal(fault, method, request)
        if refusal is not None:
            raise refusal

    def _refusal(self, fault: Fault, method: str, request: Any) -> errors.Refusal | None:
        """The refusal that a fault asks for, in the words of the real service."""
        target = target_of(request)
        zone = zone_of(target)
        asked_type = request.node.accelerator_type if method == "CreateNode" else ""
        number = self._project_number
        refusals: Mapping[str, Callable[[], errors.Refusal]] = {
            "error": lambda: errors.Refusal(errors.status_of(fault.code, fault.message)),
            "unavailable": lambda: errors.Refusal(errors.status_of(fault.code, fault.message)),
            "quota": lambda: errors.quota_exceeded(
                fault.quota_id or "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI", fault.limit, zone, number
            ),
            "api_disabled": lambda: errors.api_disabled(number),
            "permission_denied": lambda: errors.permission_denied(permission_of(method), target),
            "not_allowlisted": lambda: errors.not_allowlisted(asked_type, zone),
            "location_denied": lambda: errors.zone_unknown(zone, self._project),
        }
        make = refusals.get(fault.kind)
        return make() if make else None


def plan_of(fault: Fault, zone: str) -> Plan:
    """What a fault wants of the operation that the call starts."""
    if fault.kind == "stockout":
        return Plan(verdict=errors.stockout(zone))
    if fault.kind == "operation_error":
        return Plan(verdict=errors.status_of(fault.code, fault.message))
    return Plan(is_stuck=fault.kind == "stuck")
