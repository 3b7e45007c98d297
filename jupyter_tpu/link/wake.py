"""Notices that this machine has slept, or the process stood still: what was known of a path is then worth little."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_TICK_S = 1.0
_STILL_S = 3.0
_SLEPT_S = 1.0
# The clock that goes on while the machine sleeps; Linux has a name of its own for it.
_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", -1))


def read_clocks() -> tuple[float, float]:
    """Seconds on a clock that stops while the machine sleeps, and on one that goes on; both never go back."""
    return time.monotonic(), boot_seconds()


def boot_seconds() -> float:
    """Seconds that only grow, also while this machine sleeps."""
    return time.clock_gettime(_BOOT_CLOCK) if _BOOT_CLOCK >= 0 else time.monotonic()


class SleepSensor:
    """Compares two looks at the clocks, which should be a second apart."""

    def __init__(self, awake_s: float, boot_s: float) -> None:
        self._awake_s = awake_s
        self._boot_s = boot_s

    def has_slept(self, awake_s: float, boot_s: float) -> bool:
        """Whether there was a sleep or a standstill since the last look."""
        passed_s, passed_in_all_s = awake_s - self._awake_s, boot_s - self._boot_s
        self._awake_s, self._boot_s = awake_s, boot_s
        return passed_s > _TICK_S + _STILL_S or passed_in_all_s - passed_s > _SLEPT_S


async def watch_for_wake(on_wake: Callable[[], None]) -> None:
    """Call `on_wake` after each sleep, until cancelled."""
    sensor = SleepSensor(*read_clocks())
    while True:
        await asyncio.sleep(_TICK_S)
        if sensor.has_slept(*read_clocks()):
            on_wake()
