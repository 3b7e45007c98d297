"""Detect messages that are too large for a client.

A client closes its connection when it receives such a message, and does so again each time the message is resent. It
reports the reason with the WebSocket close code 1009, but the code may get lost. Without the code, a message counts as
refused if it was the largest message in flight when several connections closed: two connections for a large message,
more for a smaller message. This module uses only the size of messages and their place in the record.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, deque

TOO_BIG = 1009
"""The WebSocket close code of a client that received a message larger than its limit (RFC 6455, 7.4.1)."""

_LARGE_BYTES = 1_000_000
_SUSPECT_BYTES = 32_000
"""The lowest default limits of WebSocket libraries: 1 MiB in most libraries, 32 KiB in one."""

# Number of connections that must break at the same message, without a close code, until the message counts as rejected.
# Smaller messages need more: an unreliable network is more likely than a client with a limit below 1 MiB.
_TIMES_LARGE = 2
_TIMES = 5
_REMEMBERED = 1000  # messages; bounds the memory

Place = tuple[str, str, int]
"""A kernel, a session and a seq."""


class InFlight:
    """The sizes of the messages that a page has not acknowledged yet.

    A message that is smaller than a later one is not stored, because only the largest message is needed.
    """

    def __init__(self) -> None:
        self._written: deque[tuple[int, int]] = deque()

    def write(self, seq: int, size: int) -> None:
        """Add a message that was written to the page; ignore jupyter_tpu's own messages, whose seq is 0."""
        if not seq:
            return
        # a smaller, earlier message can never be the largest unacknowledged one again
        while self._written and self._written[-1][1] <= size:
            self._written.pop()
        self._written.append((seq, size))

    def arrived(self, seq: int) -> None:
        """Remove all messages up to `seq`, because they were acknowledged."""
        while self._written and self._written[0][0] <= seq:
            self._written.popleft()

    def reset(self) -> None:
        """Remove all messages, because the kernel has a new record."""
        self._written.clear()

    @property
    def largest(self) -> tuple[int, int] | None:
        """The seq and size of the largest message in flight, or None if no message is in flight."""
        return self._written[0] if self._written else None


class Refusals:
    """The newest messages that were, or seem to have been, too large for a client of this server."""

    def __init__(self) -> None:
        self._times: OrderedDict[Place, tuple[int, int]] = OrderedDict()

    def add(self, place: Place, size: int, close_code: int | None) -> None:
        """Record that a connection closed while this message was the largest one in flight."""
        if close_code != TOO_BIG and size < _SUSPECT_BYTES:
            return
        before, _ = self._times.pop(place, (0, 0))
        self._times[place] = (_TIMES if close_code == TOO_BIG else before + 1, size)
        if len(self._times) > _REMEMBERED:
            self._times.popitem(last=False)

    def has(self, place: Place, size: int) -> bool:
        """Return whether a message of this size, at this place in the record, counts as too large for its client.

        Messages can be merged, so messages of different sizes can have the same place. A message that is smaller than
        the refused one does not count as too large.
        """
        times, refused = self._times.get(place, (0, 0))
        return size >= refused and times >= (_TIMES_LARGE if refused >= _LARGE_BYTES else _TIMES)

    def smallest(self, kernel_id: str, session_id: str) -> int:
        """Return the size of the smallest message that a session is known to have refused."""
        sizes = (size for place, (_, size) in self._times.items() if place[:2] == (kernel_id, session_id))
        return min(sizes, default=sys.maxsize)

    def reset_kernel(self, kernel_id: str) -> None:
        """Remove all messages of a kernel, because it has a new record."""
        for place in [place for place in self._times if place[0] == kernel_id]:
            del self._times[place]
