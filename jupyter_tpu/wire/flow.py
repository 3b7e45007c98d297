"""How many bytes may be on their way to a client: enough to fill the path, too few to make anything wait behind them.

The window is twice the path's rate times its shortest round trip, within bounds. Samples taken while the kernel had
little to say tell nothing about the path and only ever raise the rate (BBR's rule). The rate is remembered for as long
as the connection lasts, however long nothing is sent: it falls, by half at most, only where output that filled the
window did not reach it for a while.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

MIN_WINDOW_BYTES = 1024 * 1024
MAX_WINDOW_BYTES = 32 * 1024 * 1024
_TRIPS_MEMORY_S = 10.0
_PACE_S = 1.0
_PACE_TRIPS = 4  # a burst's first round trip cannot show what the path carries


@dataclass(frozen=True, slots=True)
class _Mark:
    """The state when a slice was sent, up to `end` bytes in all; `alone`: nothing else was on its way."""

    end: int
    sent_at: float
    delivered: int
    delivered_at: float
    starved: bool
    alone: bool


class Window:
    """The sender's estimate for one connection; `now` is any monotonic clock in seconds."""

    def __init__(self) -> None:
        self.size = MIN_WINDOW_BYTES
        self._sent = 0
        self._delivered = 0
        self._delivered_at = 0.0
        self._marks: deque[_Mark] = deque()
        self._rate = 0.0
        self._pace: tuple[float, float] | None = None
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
        alone = not self.in_flight
        if alone:
            self._delivered_at, self._pace = now, None
        self._sent += size
        self._marks.append(_Mark(self._sent, now, self._delivered, self._delivered_at, starved, alone))

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
        shortest = self._shortest_trip(trip, now, alone=mark.alone)
        self._judge(rate, now, shortest, starved=mark.starved)
        self.size = int(min(max(2 * self._rate * shortest, MIN_WINDOW_BYTES), MAX_WINDOW_BYTES))

    def _shortest_trip(self, trip: float, now: float, *, alone: bool) -> float:
        """Without what waited before the path: while output is in full flow each trip has waited for a window."""
        if alone or not self._trips or trip < min(value for _, value in self._trips):
            self._trips.append((now, trip))
        while len(self._trips) > 1 and self._trips[0][0] < now - _TRIPS_MEMORY_S:
            self._trips.popleft()
        return min(value for _, value in self._trips)

    def _judge(self, rate: float, now: float, trip: float, *, starved: bool) -> None:
        """Raise the path's rate at once; lower it when a burst has not kept its pace for so long.

        `_pace` is since when the burst is judged, and its best rate from then on.
        """
        if rate >= self._rate:
            self._rate, self._pace = rate, None
        elif not starved:
            since, best = self._pace or (now, 0.0)
            self._pace = since, max(best, rate)
            if now - since >= max(_PACE_S, _PACE_TRIPS * trip):
                self._rate, self._pace = max(*self._pace[1:], self._rate / 2), None
