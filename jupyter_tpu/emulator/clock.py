"""Virtual time: the emulated cloud lives N seconds per real second.

Time stands still while the emulator is off, so an emulated node that was forgotten does not bill a real week.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from jupyter_tpu.emulator.behaviours import assumed

RealTime = Callable[[], float]


@assumed("time-stands-still", "The cloud's time stands still while the emulator is off, so nothing is billed for it.")
class VirtualClock:
    """Seconds since the epoch in virtual time, running `scale` times as fast as real time."""

    def __init__(self, *, start: float, scale: float, real_time: RealTime = time.monotonic) -> None:
        self._start = start
        self._scale = scale
        self._real_time = real_time
        self._real_start = real_time()

    @property
    def scale(self) -> float:
        return self._scale

    def now(self) -> float:
        return self._start + (self._real_time() - self._real_start) * self._scale

    def real_seconds_until(self, moment: float) -> float:
        """How long to wait, in real seconds, until a virtual moment; 0 when it has passed."""
        return max(0.0, (moment - self.now()) / self._scale)

    def advance(self, seconds: float) -> None:
        """Jump ahead by virtual seconds."""
        self._restart_at(self.now() + seconds)

    def set_scale(self, scale: float) -> None:
        self._restart_at(self.now())
        self._scale = scale

    def _restart_at(self, moment: float) -> None:
        self._start = moment
        self._real_start = self._real_time()
