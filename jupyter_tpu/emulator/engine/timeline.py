"""Perform due actions: operations, steps of queued resources and expiries of nodes. One timer, no polling."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from jupyter_tpu.emulator.resources.clock import VirtualClock

_log = logging.getLogger(__name__)


class Due(NamedTuple):
    """An action and the virtual time at which it is due.

    Two actions with the same key never run at the same time. An action must remove itself from its agenda or change its
    due time; otherwise it would be performed again and again.
    """

    moment: float
    key: str
    act: Callable[[], Awaitable[None]]


class Agenda(Protocol):
    """A list of actions to perform later."""

    def waiting(self) -> list[Due]:
        """Return the next actions, and possibly later ones, in any order. Must be fast, because it is called often."""


class Timeline:
    """Performs the due actions of all agendas. Call `arm` after any change that may affect the next due action."""

    def __init__(self, clock: VirtualClock, agendas: Sequence[Agenda]) -> None:
        self._clock = clock
        self._agendas = agendas
        self._timer: asyncio.TimerHandle | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._broken: set[str] = set()

    def arm(self) -> None:
        """Set the timer to the next time at which an action is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        moment = self.next_moment()
        delay = math.inf if moment is None else self._clock.real_seconds_until(moment)
        # the delay is infinite while the clock is paused; when it is resumed, `arm` is called again
        if delay < math.inf:
            self._timer = asyncio.get_running_loop().call_later(delay, self._fire)

    def next_moment(self) -> float | None:
        """Return the virtual time at which the next waiting action is due, or None if no action is waiting."""
        return min((due.moment for due in self._waiting()), default=None)

    async def settled(self) -> None:
        """Wait until all actions that are due have finished."""
        while self._fire_due() or self._running:
            await asyncio.wait(list(self._running.values()))
            await asyncio.sleep(0)  # lets the done callbacks of these tasks run

    async def close(self) -> None:
        """Cancel running actions; they run again after the next `arm`, because their agendas still list them."""
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        # their transactions must finish before the store is closed
        await asyncio.gather(*tasks, return_exceptions=True)
        self._broken.clear()

    def _waiting(self) -> list[Due]:
        # agendas still list acts that are already running, so exclude running acts
        busy = self._running.keys() | self._broken
        return [due for agenda in self._agendas for due in agenda.waiting() if due.key not in busy]

    def _fire(self) -> None:
        self._fire_due()
        self.arm()

    def _fire_due(self) -> bool:
        """Start the actions that are due; return whether any action was started."""
        now = self._clock.now()
        begun = False
        # process all agendas in order of time, so that a jump replays what would have happened
        for due in sorted(self._waiting(), key=_moment_of):
            # an earlier act of this loop may have the same key
            if due.moment <= now and due.key not in self._running:
                self._start(due)
                begun = True
        return begun

    def _start(self, due: Due) -> None:
        task = asyncio.ensure_future(due.act())
        self._running[due.key] = task
        task.add_done_callback(lambda _: self._finished(due.key))

    def _finished(self, key: str) -> None:
        """Remove a finished task; do not retry an action that raised an error, because it would fail each time."""
        task = self._running.pop(key)
        if task.cancelled():
            return
        if task.exception() is not None:
            _log.error("the act that was due for %s failed", key, exc_info=task.exception())
            self._broken.add(key)
        self.arm()


def _moment_of(due: Due) -> float:
    return due.moment
