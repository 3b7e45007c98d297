"""Scripted faults: asked for by name, per method, consumed in order.

A fault hits the next call of its method (``*`` hits any), `times` times. Kinds:

    error              the call is refused with `code` and `message`, nothing is done
    unavailable        the same with 503, as a broken front end of the real service gives
    drop               the connection breaks, nothing is done
    applied_then_drop  the call is done, but the connection breaks before the answer
    latency            the call is done `seconds` real seconds later
    quota              E2: refused with 429 (`quota_id`, `limit`)
    api_disabled       E9        permission_denied  E8        not_allowlisted  E7        location_denied  E6
    stockout           E1: the operation that the call starts ends with code 8 (create and start)
    operation_error    the operation ends with `code` and `message`
    stuck              the operation's effect happens, but it is never reported as done
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.rpc import code_pb2

from jupyter_tpu.emulator import fields
from jupyter_tpu.emulator.errors import code_number

KINDS = frozenset(
    [
        "error",
        "unavailable",
        "drop",
        "applied_then_drop",
        "latency",
        "quota",
        "api_disabled",
        "permission_denied",
        "not_allowlisted",
        "location_denied",
        "stockout",
        "operation_error",
        "stuck",
    ]
)
ANY_METHOD = "*"


@dataclass(slots=True, kw_only=True)
class Fault:
    """One scripted fault; `times` counts down to 0."""

    method: str
    kind: str
    times: int = 1
    code: int = code_pb2.UNAVAILABLE
    message: str = "The service is currently unavailable."
    seconds: float = 0.0
    quota_id: str = ""
    limit: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"method": self.method, "kind": self.kind, "times": self.times, "message": self.message}


def _kind(value: object) -> str:
    if value not in KINDS:
        raise ValueError(f"unknown kind of fault {value!r}; kinds: {', '.join(sorted(KINDS))}")
    return str(value)


_CHECKS: Mapping[str, Callable[[object], Any]] = {
    "method": fields.text,
    "kind": _kind,
    "times": fields.counting,
    "code": code_number,
    "message": fields.text,
    "seconds": fields.amount,
    "quota_id": fields.text,
    "limit": fields.whole,
}


def fault_from_json(data: Mapping[str, Any]) -> Fault:
    """Raises ValueError, TypeError or KeyError with what is wrong."""
    return Fault(**{name: _CHECKS[name](value) for name, value in data.items()})


@dataclass(slots=True)
class FaultTable:
    """Faults waiting for their calls, in the order in which they were asked for."""

    waiting: list[Fault] = field(default_factory=list)

    def add(self, fault: Fault) -> None:
        self.waiting.append(fault)

    def clear(self) -> None:
        self.waiting.clear()

    def take(self, method: str) -> Fault | None:
        """The first fault for this method, used up once."""
        for fault in self.waiting:
            if fault.method in (method, ANY_METHOD):
                return self._use(fault)
        return None

    def _use(self, fault: Fault) -> Fault:
        fault.times -= 1
        if fault.times <= 0:
            self.waiting.remove(fault)
        return fault
