"""Messages that are too large for a client: it closes its connection at them, and would get them again at each return.

A client says so with the WebSocket's code 1009, which may be lost with what it did not read any more. Without the code
the same message must have been on its way as the connection ended, twice, and more often if it is not large. Knows
messages by size and place only.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, deque

TOO_BIG = 1009
"""The code with which a WebSocket is closed at a message that is larger than its reader takes."""

_LARGE_BYTES = 1_000_000
_SUSPECT_BYTES = 32_000
"""The lowest limits that libraries for WebSockets have by default: 1 MiB of most, 32 KiB of one."""

_TIMES_LARGE = 2
_TIMES = 5
_REMEMBERED = 1000

Place = tuple[str, str, int]
"""Kernel, session and seq."""


class OnTheWay:
    """What was written to a page and has not arrived yet; of that, what may be the largest in its turn."""

    def __init__(self) -> None:
        self._written: deque[tuple[int, int]] = deque()

    def write(self, seq: int, size: int) -> None:
        """A message of the record; words of our own have no seq."""
        if not seq:
            return
        while self._written and self._written[-1][1] <= size:
            self._written.pop()
        self._written.append((seq, size))

    def arrived(self, seq: int) -> None:
        """Everything up to `seq`."""
        while self._written and self._written[0][0] <= seq:
            self._written.popleft()

    def begin_anew(self) -> None:
        """Seqs count from 1 again."""
        self._written.clear()

    @property
    def largest(self) -> tuple[int, int] | None:
        """Seq and size."""
        return self._written[0] if self._written else None


class Refusals:
    """What the sessions of a server have refused; the newest of it."""

    def __init__(self) -> None:
        self._times: OrderedDict[Place, tuple[int, int]] = OrderedDict()

    def add(self, place: Place, size: int, close_code: int | None) -> None:
        """The connection of a session has ended with this message on its way, the largest of all that were."""
        if close_code != TOO_BIG and size < _SUSPECT_BYTES:
            return
        before, _ = self._times.pop(place, (0, 0))
        self._times[place] = (_TIMES if close_code == TOO_BIG else before + 1, size)
        if len(self._times) > _REMEMBERED:
            self._times.popitem(last=False)

    def has(self, place: Place, size: int) -> bool:
        """Whether it is sent no more. A smaller one of the seq is only a part of what was merged there before."""
        times, refused = self._times.get(place, (0, 0))
        return size >= refused and times >= (_TIMES_LARGE if refused >= _LARGE_BYTES else _TIMES)

    def smallest(self, kernel_id: str, session_id: str) -> int:
        """The size of the smallest message at which this session's connections have ended, for sure or perhaps."""
        sizes = (size for place, (_, size) in self._times.items() if place[:2] == (kernel_id, session_id))
        return min(sizes, default=sys.maxsize)

    def begin_anew(self, kernel_id: str) -> None:
        """The kernel has got a new record."""
        for place in [place for place in self._times if place[0] == kernel_id]:
            del self._times[place]
