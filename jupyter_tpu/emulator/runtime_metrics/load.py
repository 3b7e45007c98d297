"""Measure the memory and CPU use of the processes that use the chips. Values are measured only on request."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass

import psutil

from jupyter_tpu.emulator.runtime_metrics.readings import Reading

# Our choices. A call must be short, but /proc counts CPU time in steps of 10 ms, so a window of a few ms would be too
# short.
WINDOW_S = 0.2
"""Seconds over which CPU time is measured if the last sample is older than `FRESH_S`."""
FRESH_S = 5.0
BUSY_PERCENT = 1.0
"""CPU use below which a process counts as idle, in percent of a core: idle kernels respond to heartbeats."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """CPU time and memory at one time."""

    moment: float
    cpu_s: float
    memory_bytes: int


class Load:
    """Measures the load of a process and its descendants. Thread-safe; blocks for at most `WINDOW_S`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._lock = threading.Lock()
        self._last: _Sample | None = None
        self._busy_percent = 0.0
        self._busy_at = time.monotonic()

    def read(self) -> Reading:
        """Return the load since the last call, or over `WINDOW_S` if the last call was long ago."""
        # gRPC calls from several threads; two samples at the same time would shorten each other's window
        with self._lock:
            sample = self._new_sample()
        return Reading(
            moment=time.time(),
            memory_bytes=sample.memory_bytes,
            busy_percent=self._busy_percent,
            idle_s=sample.moment - self._busy_at,
        )

    def _new_sample(self) -> _Sample:
        before = self._last
        if before is None or time.monotonic() - before.moment > FRESH_S:
            before = self._sample()
        missing_s = WINDOW_S - (time.monotonic() - before.moment)
        if missing_s > 0 and self._last is not None and before is self._last:
            return self._last  # the last call was too recent: a shorter window would measure only noise
        time.sleep(max(0.0, missing_s))
        after = self._sample()
        self._store(before, after)
        return after

    def _store(self, before: _Sample, after: _Sample) -> None:
        """Compute the CPU load between two samples, and store it.

        The second sample lacks the CPU time of processes that have exited, so the difference may be negative.
        """
        used = max(0.0, after.cpu_s - before.cpu_s) / (after.moment - before.moment)
        self._busy_percent = min(100.0, 100.0 * used)
        if self._busy_percent >= BUSY_PERCENT:
            self._busy_at = after.moment
        self._last = after

    def _sample(self) -> _Sample:
        cpu_s, memory_bytes = 0.0, 0
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                cpu_s += times.user + times.system
                memory_bytes += process.memory_info().rss
        return _Sample(time.monotonic(), cpu_s, memory_bytes)

    def _processes(self) -> list[psutil.Process]:
        try:
            holder = psutil.Process(self._pid)
            return [holder, *holder.children(recursive=True)]
        except psutil.Error:
            return []
