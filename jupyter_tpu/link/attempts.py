"""When to try again to reach a worker: at once, then soon, and after a long time with patience."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import repeat

_EAGER_DELAY_S = 2.0
_EAGER_TRIES = 1800
_PATIENT_DELAY_S = 15.0


def reconnect_delays() -> Iterator[float]:
    """At once, then soon, for an hour often enough to be back within 3 s of the path; then with patience."""
    yield from (0.0, 0.5, 1.0)
    yield from repeat(_EAGER_DELAY_S, _EAGER_TRIES)
    yield from repeat(_PATIENT_DELAY_S)


class Attempts:
    """The pauses between attempts, which `hurry` ends.

    Args:
        hurried_s: how long a connection that is being opened may still take after `hurry`.
    """

    def __init__(self, hurried_s: float) -> None:
        self._hurried_s = hurried_s
        self._delays = reconnect_delays()
        self._hurried = asyncio.Event()
        self._limit: asyncio.Timeout | None = None

    def begin(self) -> None:
        """The path has just gone."""
        self._delays = reconnect_delays()

    async def pause(self) -> None:
        """Wait until the next attempt is due; others get their turn in any case."""
        await asyncio.sleep(0)
        with suppress(TimeoutError):
            async with asyncio.timeout(next(self._delays)):
                await self._hurried.wait()
        if self._hurried.is_set():
            self._hurried.clear()
            self._delays = reconnect_delays()

    def hurry(self) -> None:
        """There may be a path again: try at once.

        A connection that is being opened may speak to a path that is gone, and has little time left.
        """
        self._hurried.set()
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + self._hurried_s)

    @asynccontextmanager
    async def opening(self) -> AsyncIterator[None]:
        """Around the opening of a connection; ends with `TimeoutError` when it takes too long after `hurry`."""
        try:
            async with asyncio.timeout(None) as self._limit:
                yield
        finally:
            self._limit = None
