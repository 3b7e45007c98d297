"""The pending scripted faults, and which of them affect a call."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from jupyter_tpu.emulator.api_faults.faults import Fault, WaitingFault
from jupyter_tpu.emulator.resources.targets import target_of, zone_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The properties of a call that decide which faults affect it.

    Attributes:
        target: full name of the resource in the call; for a create call, the full name of the new resource.
        about: if the call names an operation, the resource that the operation changes; otherwise empty.
        now: virtual time of the call.
    """

    method: str
    target: str
    about: str
    page_token: str
    now: float

    @property
    def names(self) -> frozenset[str]:
        """The names by which a fault can target the call."""
        resources = [self.target, self.about]
        return frozenset([*resources, *(name.rpartition("/")[2] for name in resources), zone_of(self.target)])


def made_by(method: str, request: Any) -> str:
    """Return the full name of the resource in a request. For a create request, this is the name of the new resource."""
    parent = target_of(request)
    if method == "CreateNode":
        return f"{parent}/nodes/{request.node_id}"
    if method == "CreateQueuedResource":
        return f"{parent}/queuedResources/{request.queued_resource_id}"
    return parent


@dataclass(slots=True)
class FaultTable:
    """The faults that are waiting for a call, in the order in which they were requested."""

    waiting: list[WaitingFault] = field(default_factory=list)
    _number: int = 0
    _draws: dict[int, random.Random] = field(default_factory=dict)
    _tokens: dict[str, float] = field(default_factory=dict)

    def add(self, fault: Fault) -> WaitingFault:
        """Add a fault."""
        self._number += 1
        # each fault has its own generator, so that other faults don't change its sequence of random numbers
        self._draws[self._number] = random.Random(fault.seed)
        self.waiting.append(WaitingFault(number=self._number, fault=fault))
        return self.waiting[-1]

    def clear(self) -> None:
        """Remove all faults."""
        self.waiting.clear()
        self._draws.clear()
        self._tokens.clear()

    def remove(self, number: int) -> bool:
        """Remove a waiting fault. Returns False if no waiting fault has this id."""
        found = [each for each in self.waiting if each.number == number]
        for waiting in found:
            self._forget(waiting)
        return bool(found)

    def consume(self, call: Call) -> dict[str, Fault]:
        """Return the faults that affect a call, at most one per `Sort`, and count one use of each fault."""
        met: dict[str, Fault] = {}
        for waiting in list(self.waiting):
            if _concerns(waiting.fault, call):
                # count the call even if another fault of this kind applies, so that `nth` counts calls
                waiting.seen += 1
                if waiting.fault.sort not in met and self._strikes(waiting, call):
                    met[waiting.fault.sort] = self._use(waiting)
        return met

    def record_token(self, token: str, now: float) -> None:
        """Record an issued page token, if a waiting fault makes tokens expire."""
        if token and any(each.fault.kind == "expired_token" for each in self.waiting):
            self._tokens[token] = now

    def _strikes(self, waiting: WaitingFault, call: Call) -> bool:
        fault = waiting.fault
        if waiting.seen < fault.nth:
            return False
        if fault.probability < 1 and self._draws[waiting.number].random() >= fault.probability:
            return False
        if fault.kind == "rate":
            return _is_too_often(waiting, call.now)
        return fault.kind != "expired_token" or self._is_old(call, fault.seconds)

    def _is_old(self, call: Call, seconds: float) -> bool:
        """Return whether the page token has expired. Tokens issued before the fault was requested count as expired."""
        given = self._tokens.get(call.page_token)
        return bool(call.page_token) and (given is None or call.now - given >= seconds)

    def _use(self, waiting: WaitingFault) -> Fault:
        waiting.struck += 1
        if waiting.is_used_up:
            self._forget(waiting)
        return waiting.fault

    def _forget(self, waiting: WaitingFault) -> None:
        self.waiting.remove(waiting)
        del self._draws[waiting.number]


def _concerns(fault: Fault, call: Call) -> bool:
    return fault.can_hit(call.method) and (not fault.target or fault.target in call.names)


def _is_too_often(waiting: WaitingFault, now: float) -> bool:
    """Return whether this call exceeds the allowed rate; count the call if it does not."""
    recent = [moment for moment in waiting.moments if now - moment < waiting.fault.seconds]
    is_over = len(recent) >= waiting.fault.limit
    waiting.moments = recent if is_over else [*recent, now]
    return is_over
