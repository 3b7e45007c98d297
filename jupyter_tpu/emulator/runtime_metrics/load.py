"""How much memory and CPU the processes that have the chips use: looked at when somebody asks, never in between."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass

import psutil

from jupyter_tpu.emulator.runtime_metrics.readings import Reading

WINDOW_S = 0.2
"""CPU time is measured over this long when the last look is older than `FRESH_S`."""
FRESH_S = 5.0
BUSY_PERCENT = 1.0
"""Less than this is nothing: idle kernels answer heartbeats."""


@dataclass(frozen=True, slots=True)
class _Look:
    moment: float
    cpu_s: float
    memory_bytes: int


class Load:
    """The load of a process and all that descend from it. Used from several threads; blocks for `WINDOW_S` at most."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._lock = threading.Lock()
        self._last: _Look | None = None
        self._busy_percent = 0.0
        self._busy_at = time.monotonic()

    def read(self) -> Reading:
        with self._lock:
            look = self._new_look()
        return Reading(
            moment=time.time(),
            memory_bytes=look.memory_bytes,
            busy_percent=self._busy_percent,
            idle_s=look.moment - self._busy_at,
        )

    def _new_look(self) -> _Look:
        before = self._last
        if before is None or time.monotonic() - before.moment > FRESH_S:
            before = self._look()
        wanting = WINDOW_S - (time.monotonic() - before.moment)
        if wanting > 0 and self._last is not None and before is self._last:
            return self._last  # asked a moment ago: a shorter window would measure nothing but chance
        time.sleep(max(0.0, wanting))
        after = self._look()
        self._note(before, after)
        return after

    def _note(self, before: _Look, after: _Look) -> None:
        """A process that ended takes its CPU time along, so the difference may be negative."""
        used = max(0.0, after.cpu_s - before.cpu_s) / (after.moment - before.moment)
        self._busy_percent = min(100.0, 100.0 * used)
        if self._busy_percent >= BUSY_PERCENT:
            self._busy_at = after.moment
        self._last = after

    def _look(self) -> _Look:
        cpu_s, memory_bytes = 0.0, 0
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                cpu_s += times.user + times.system
                memory_bytes += process.memory_info().rss
        return _Look(time.monotonic(), cpu_s, memory_bytes)

    def _processes(self) -> list[psutil.Process]:
        try:
            holder = psutil.Process(self._pid)
            return [holder, *holder.children(recursive=True)]
        except psutil.Error:
            return []
