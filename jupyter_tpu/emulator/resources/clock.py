"""Virtual time: N seconds pass in the emulated cloud per real second; the clock can be paused and moved ahead.

Virtual time stops while the emulator is off, so that no node is billed for this time.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator

from jupyter_tpu.emulator.resources.behaviours import assumed

RealTime = Callable[[], float]


@assumed(
    "time-stands-still",
    "The cloud's clock stops while the emulator is not running, so nothing is billed for that time.",
)
class VirtualClock:
    """Seconds since the epoch in virtual time, `scale` times as fast as real time unless paused."""

    def __init__(
        self, *, start: float, scale: float, is_paused: bool = False, real_time: RealTime = time.monotonic
    ) -> None:
        self._start = start
        self._scale = scale
        self._is_paused = is_paused
        self._is_held = False
        self._real_time = real_time
        self._real_start = real_time()

    @property
    def scale(self) -> float:
        """Virtual seconds per real second when not paused."""
        return self._scale

    @property
    def is_paused(self) -> bool:
        """Whether the clock is paused until `resume`."""
        return self._is_paused

    @property
    def rate(self) -> float:
        """Current virtual seconds per real second; 0 while the clock is stopped."""
        return 0.0 if self._is_paused or self._is_held else self._scale

    def now(self) -> float:
        """Return the virtual time."""
        return self._start + (self._real_time() - self._real_start) * self.rate

    def real_seconds_until(self, moment: float) -> float:
        """Return the real seconds until a virtual time; 0 if it has passed, infinity while paused."""
        missing = moment - self.now()
        if missing <= 0:
            return 0.0
        return missing / self.rate if self.rate else math.inf

    def move_to(self, moment: float) -> None:
        """Jump ahead to a virtual time; ignore a time in the past."""
        self._restart_at(max(moment, self.now()))

    def set_scale(self, scale: float) -> None:
        """Change the virtual seconds per real second from now on."""
        self._restart_at(self.now())
        self._scale = scale

    def pause(self) -> None:
        """Stop the clock."""
        self._restart_at(self.now())
        self._is_paused = True

    def resume(self) -> None:
        """Resume the clock."""
        self._restart_at(self.now())
        self._is_paused = False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Stop the clock within the context; only `move_to` still changes the time."""
        self._restart_at(self.now())
        self._is_held = True
        try:
            yield
        finally:
            self._restart_at(self.now())
            self._is_held = False

    def _restart_at(self, moment: float) -> None:
        # each change starts from the current virtual time, so that no virtual time is lost or gained
        self._start = moment
        self._real_start = self._real_time()
