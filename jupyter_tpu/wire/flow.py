"""How many bytes may be on their way to a client: enough to fill the path, too few to make anything wait behind them.

The window is twice the best rate of the last ten seconds times the smallest round trip, within bounds. Samples taken
while the kernel had little to say tell nothing about the path and only ever raise the rate (BBR's rule).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

MIN_WINDOW_BYTES = 1024 * 1024
MAX_WINDOW_BYTES = 32 * 1024 * 1024
_MEMORY_S = 10.0


@dataclass(frozen=True, slots=True)
class _Mark:
    """The state when a slice was sent, up to `end` bytes in all."""

    end: int
    sent_at: float
    delivered: int
    delivered_at: float
    starved: bool


class Window:
    """The sender's estimate for one connection; `now` is any monotonic clock in seconds."""

    def __init__(self) -> None:
        self.size = MIN_WINDOW_BYTES
        self._sent = 0
        self._delivered = 0
        self._delivered_at = 0.0
        self._marks: deque[_Mark] = deque()
        self._rates: deque[tuple[float, float]] = deque()
        self._trips: deque[tuple[float, float]] = deque()

    @property
    def in_flight(self) -> int:
        return self._sent - self._delivered

    @property
    def room(self) -> int:
        """How many bytes may be sent now."""
        return max(0, self.size - self.in_flight)

    def sent(self, size: int, now: float, *, starved: bool) -> None:
        """A slice was sent; `starved` means that there was nothing more to send."""
        if not self.in_flight:
            self._delivered_at = now
        self._sent += size
        self._marks.append(_Mark(self._sent, now, self._delivered, self._delivered_at, starved))

    def received(self, size: int, now: float) -> None:
        """The client has `size` bytes more."""
        self._delivered = min(self._sent, self._delivered + size)
        self._delivered_at = now
        mark = None
        while self._marks and self._marks[0].end <= self._delivered:
            mark = self._marks.popleft()
        if mark is not None:
            self._learn(mark, now)

    def forget(self, size: int) -> None:
        """Bytes of a stream that was closed will never be acknowledged."""
        self._delivered = min(self._sent, self._delivered + size)

    def _learn(self, mark: _Mark, now: float) -> None:
        trip = max(now - mark.sent_at, 1e-4)
        rate = (self._delivered - mark.delivered) / max(now - mark.delivered_at, 1e-4)
        best = max((value for _, value in self._rates), default=0.0)
        if not mark.starved or rate > best:
            _remember(self._rates, now, rate)
        _remember(self._trips, now, trip)
        best = max((value for _, value in self._rates), default=0.0)
        shortest = min(value for _, value in self._trips)
        self.size = int(min(max(2 * best * shortest, MIN_WINDOW_BYTES), MAX_WINDOW_BYTES))


def _remember(samples: deque[tuple[float, float]], now: float, value: float) -> None:
    samples.append((now, value))
    while samples[0][0] < now - _MEMORY_S:
        samples.popleft()
