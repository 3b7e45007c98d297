"""Detect that this machine slept or this process was suspended, because connections may be dead afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_TICK_S = 1.0
# A tick later than this is not due to a busy loop: the process or the whole virtual machine was suspended.
_STILL_S = 3.0
# The two clocks never differ while the machine is awake; 1 s is far above their resolution.
_SLEPT_S = 1.0
# The clock that also runs while the machine sleeps: BOOTTIME on Linux, MONOTONIC on macOS.
_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", -1))


def read_clocks() -> tuple[float, float]:
    """Return two monotonic times in seconds: one excludes the time when the machine sleeps, the other includes it."""
    return time.monotonic(), boot_seconds()


def boot_seconds() -> float:
    """Return monotonic seconds, which continue to count while this machine sleeps."""
    return time.clock_gettime(_BOOT_CLOCK) if _BOOT_CLOCK >= 0 else time.monotonic()


class SleepSensor:
    """Detects whether the machine slept, by comparing clock readings that should be one second apart."""

    def __init__(self, awake_s: float, boot_s: float) -> None:
        self._awake_s = awake_s
        self._boot_s = boot_s

    def has_slept(self, awake_s: float, boot_s: float) -> bool:
        """Return whether the machine slept or the process was suspended since the last reading."""
        passed_s, passed_in_all_s = awake_s - self._awake_s, boot_s - self._boot_s
        self._awake_s, self._boot_s = awake_s, boot_s
        return passed_s > _TICK_S + _STILL_S or passed_in_all_s - passed_s > _SLEPT_S


async def watch_for_wake(on_wake: Callable[[], None]) -> None:
    """Call `on_wake` each time this computer has slept, until the task is cancelled."""
    sensor = SleepSensor(*read_clocks())
    while True:
        await asyncio.sleep(_TICK_S)
        if sensor.has_slept(*read_clocks()):
            on_wake()
