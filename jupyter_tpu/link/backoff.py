"""The schedule for reconnecting to a worker: immediately, then every 2 s for an hour, then every 15 s."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import repeat

# A link must reconnect within 3 s after the network is back: a delay of 2 s leaves 1 s for the connection itself.
_EAGER_DELAY_S = 2.0
_EAGER_TRIES = 1800  # 1800 tries of 2 s: an hour
# After an hour, battery use and log size matter more than a reconnect within seconds.
_PATIENT_DELAY_S = 15.0


def reconnect_delays() -> Iterator[float]:
    """Yield the delay before each attempt, in seconds. The sequence never ends."""
    yield from (0.0, 0.5, 1.0)
    yield from repeat(_EAGER_DELAY_S, _EAGER_TRIES)
    yield from repeat(_PATIENT_DELAY_S)


class Attempts:
    """The delays between connection attempts. `hurry` ends the current delay immediately.

    Args:
        hurried_s: how long a connection attempt in progress may still take after `hurry`, in seconds.
    """

    def __init__(self, hurried_s: float) -> None:
        self._hurried_s = hurried_s
        self._delays = reconnect_delays()
        self._hurried = asyncio.Event()
        self._limit: asyncio.Timeout | None = None

    def begin(self) -> None:
        """Restart the schedule with short delays, because the connection has just been lost."""
        self._delays = reconnect_delays()

    async def pause(self) -> None:
        """Wait until the next attempt is due."""
        # The first delay is 0 s. Without this line, attempts that fail at once would block the event loop.
        await asyncio.sleep(0)
        with suppress(TimeoutError):
            async with asyncio.timeout(next(self._delays)):
                await self._hurried.wait()
        if self._hurried.is_set():
            self._hurried.clear()
            self._delays = reconnect_delays()

    def hurry(self) -> None:
        """Retry immediately, because the network may be back.

        A connection attempt in progress may use a network that is gone, so it gets only `hurried_s` more seconds.
        """
        self._hurried.set()
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + self._hurried_s)

    @asynccontextmanager
    async def opening(self) -> AsyncIterator[None]:
        """Limit the time for opening a connection: raise `TimeoutError` `hurried_s` seconds after `hurry`."""
        try:
            async with asyncio.timeout(None) as self._limit:
                yield
        finally:
            self._limit = None
