"""Lets things happen when they are due: operations, queued resources, ends of nodes. One timer, no polling."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from jupyter_tpu.emulator.resources.clock import VirtualClock

_log = logging.getLogger(__name__)


class Due(NamedTuple):
    """`act` is due at a virtual moment; no two acts of one key run at once. It must change what is waiting."""

    moment: float
    key: str
    act: Callable[[], Awaitable[None]]


class Agenda(Protocol):
    """Something that has things to do later."""

    def waiting(self) -> list[Due]:
        """What is to be done next, in any order; not necessarily all of it. Asked often, so it must be quick."""


class Timeline:
    """Call `arm` after anything that may have changed what is due next."""

    def __init__(self, clock: VirtualClock, agendas: Sequence[Agenda]) -> None:
        self._clock = clock
        self._agendas = agendas
        self._timer: asyncio.TimerHandle | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._broken: set[str] = set()

    def arm(self) -> None:
        """Set the timer to the next moment at which something is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        moment = self.next_moment()
        delay = math.inf if moment is None else self._clock.real_seconds_until(moment)
        if delay < math.inf:
            self._timer = asyncio.get_running_loop().call_later(delay, self._fire)

    def next_moment(self) -> float | None:
        """The earliest virtual moment at which something is due that is not being performed; None: nothing waits."""
        return min((due.moment for due in self._waiting()), default=None)

    async def settled(self) -> None:
        """Returns when nothing that is due now waits or is being performed."""
        while self._fire_due() or self._running:
            await asyncio.wait(list(self._running.values()))
            await asyncio.sleep(0)  # lets the ends of these tasks be noted

    async def close(self) -> None:
        """Stop; what was being performed will be performed again after the next `arm`."""
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._broken.clear()

    def _waiting(self) -> list[Due]:
        busy = self._running.keys() | self._broken
        return [due for agenda in self._agendas for due in agenda.waiting() if due.key not in busy]

    def _fire(self) -> None:
        self._fire_due()
        self.arm()

    def _fire_due(self) -> bool:
        """True when something began."""
        now = self._clock.now()
        begun = False
        for due in sorted(self._waiting(), key=_moment_of):
            if due.moment <= now and due.key not in self._running:
                self._start(due)
                begun = True
        return begun

    def _start(self, due: Due) -> None:
        task = asyncio.ensure_future(due.act())
        self._running[due.key] = task
        task.add_done_callback(lambda _: self._finished(due.key))

    def _finished(self, key: str) -> None:
        """An act that failed by a defect of ours is not tried again, else it would be for ever."""
        task = self._running.pop(key)
        if task.cancelled():
            return
        if task.exception() is not None:
            _log.error("what was due of %s failed", key, exc_info=task.exception())
            self._broken.add(key)
        self.arm()


def _moment_of(due: Due) -> float:
    return due.moment
