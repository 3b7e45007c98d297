"""Flow control: limit the bytes in flight to a client.

The window must be large enough to fill the path, but small enough that control replies don't wait. It is twice the
path's rate times its shortest round trip, within bounds. Samples taken while the kernel had little to send don't
measure the path, so they may raise the rate but never lower it (BBR's rule for application-limited samples). The rate
is stored for the whole connection, however long it is idle. The rate decreases, by at most half, only if output that
filled the window has stayed below it for a while.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

# At 5 MB/s, a window of 1 MiB delays later messages by 0.2 s, which is acceptable for an interrupt's reply.
MIN_WINDOW_BYTES = 1024 * 1024
# The window of the underlying SSH channel (`ssh.connection.WINDOW_BYTES`): more than that can't be in flight anyway.
MAX_WINDOW_BYTES = 32 * 1024 * 1024
# How long the shortest round-trip time is remembered, as in BBR. After a change to a longer route, the longer time is
# used after 10 s.
_TRIPS_MEMORY_S = 10.0
# How long a burst must be slower than the known rate before the rate is lowered; shorter dips are scheduling noise.
_PACE_S = 1.0
_PACE_TRIPS = 4  # a burst's first round trip can't show the connection's capacity


@dataclass(frozen=True, slots=True)
class _Mark:
    """The state of the connection when a slice of a record was sent.

    Attributes:
        end: number of bytes that were sent up to the end of the slice.
        starved: whether there was nothing more to send; the measured rate may then be lower than the path's rate.
        alone: whether no other bytes were in flight.
    """

    end: int
    sent_at: float
    delivered: int
    delivered_at: float
    starved: bool
    alone: bool


class Window:
    """The sender's estimate of how many bytes to keep in flight. `now` is monotonic time in seconds.

    Args:
        least: the smallest size of the window, in bytes; used until the path has been measured.
        most: the largest size of the window, in bytes.

    Attributes:
        size: bytes that may be in flight.
    """

    def __init__(self, least: int = MIN_WINDOW_BYTES, most: int = MAX_WINDOW_BYTES) -> None:
        self.size = self._least = least
        self._most = most
        self._sent = 0
        self._delivered = 0
        self._delivered_at = 0.0
        self._marks: deque[_Mark] = deque()
        self._rate = 0.0
        self._pace: tuple[float, float] | None = None
        self._trips: deque[tuple[float, float]] = deque()

    @property
    def in_flight(self) -> int:
        """The number of bytes that were sent but are not acknowledged yet."""
        return self._sent - self._delivered

    @property
    def room(self) -> int:
        """The number of bytes that may be sent now."""
        return max(0, self.size - self.in_flight)

    def sent(self, size: int, now: float, *, starved: bool) -> None:
        """Record that a slice was sent; `starved` means that there was nothing more to send."""
        alone = not self.in_flight
        if alone:
            self._delivered_at, self._pace = now, None
        self._sent += size
        self._marks.append(_Mark(self._sent, now, self._delivered, self._delivered_at, starved, alone))

    def received(self, size: int, now: float) -> None:
        """Record that the client has acknowledged `size` more bytes."""
        self._delivered = min(self._sent, self._delivered + size)
        self._delivered_at = now
        mark = None
        while self._marks and self._marks[0].end <= self._delivered:
            mark = self._marks.popleft()
        if mark is not None:
            self._learn(mark, now)

    def forget(self, size: int) -> None:
        """Stop counting `size` bytes of a closed stream as in flight: no one will acknowledge them."""
        self._delivered = min(self._sent, self._delivered + size)

    def _learn(self, mark: _Mark, now: float) -> None:
        trip = max(now - mark.sent_at, 1e-4)  # a coarse clock may return 0, and the rate divides by this time
        rate = (self._delivered - mark.delivered) / max(now - mark.delivered_at, 1e-4)
        shortest = self._shortest_trip(trip, now, alone=mark.alone)
        self._update_rate(rate, now, shortest, starved=mark.starved)
        self.size = int(min(max(2 * self._rate * shortest, self._least), self._most))

    def _shortest_trip(self, trip: float, now: float, *, alone: bool) -> float:
        """Return the shortest recent round trip, without time spent waiting in queues.

        While output fills the window, each round trip includes the time to send a whole window. Such a round trip
        counts only if it is the shortest.
        """
        if alone or not self._trips or trip < min(value for _, value in self._trips):
            self._trips.append((now, trip))
        while len(self._trips) > 1 and self._trips[0][0] < now - _TRIPS_MEMORY_S:
            self._trips.popleft()
        return min(value for _, value in self._trips)

    def _update_rate(self, rate: float, now: float, trip: float, *, starved: bool) -> None:
        """Raise the estimated rate of the path immediately. Lower it only if measured rates stay lower for a while.

        `_pace` is ``(when a lower rate was first measured, the highest rate since then)``.
        """
        if rate >= self._rate:
            self._rate, self._pace = rate, None
        elif not starved:
            since, best = self._pace or (now, 0.0)
            self._pace = since, max(best, rate)
            if now - since >= max(_PACE_S, _PACE_TRIPS * trip):
                self._rate, self._pace = max(*self._pace[1:], self._rate / 2), None
