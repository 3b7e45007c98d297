"""Lets the effects of operations happen when they are due: one timer, no polling."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from jupyter_tpu.emulator.clock import VirtualClock
from jupyter_tpu.emulator.store import OperationRecord, Store

Perform = Callable[[OperationRecord], Awaitable[None]]


class Timeline:
    """Call `arm` after anything that may have changed what is due next."""

    def __init__(self, store: Store, clock: VirtualClock, perform: Perform) -> None:
        self._store = store
        self._clock = clock
        self._perform = perform
        self._timer: asyncio.TimerHandle | None = None
        self._running: dict[str, asyncio.Task[None]] = {}

    def arm(self) -> None:
        """Set the timer to the next moment at which something is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting = self._waiting()
        if waiting:
            delay = self._clock.real_seconds_until(min(moment for moment, _ in waiting))
            self._timer = asyncio.get_running_loop().call_later(delay, self._fire)

    async def close(self) -> None:
        """Stop; what was being performed will be performed again after the next `arm`."""
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _waiting(self) -> list[tuple[float, OperationRecord]]:
        in_flight = self._store.all_in_flight()
        return [(each.due, each) for each in in_flight if each.due is not None and each.name not in self._running]

    def _fire(self) -> None:
        now = self._clock.now()
        for moment, operation in self._waiting():
            if moment <= now:
                self._start(operation)
        self.arm()

    def _start(self, operation: OperationRecord) -> None:
        task = asyncio.ensure_future(self._perform(operation))
        self._running[operation.name] = task
        task.add_done_callback(lambda _: self._finished(operation.name))

    def _finished(self, name: str) -> None:
        task = self._running.pop(name)
        if not task.cancelled():
            task.result()
            self.arm()
