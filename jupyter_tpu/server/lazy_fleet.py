"""A fleet that is opened when it is first needed, and asked for again after a failure.

The server must start without a cloud; a user who signs in later must not have to restart it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from jupyter_tpu.errors import TpuError
from jupyter_tpu.fleet.assembly import OpenFleet

RETRY_AFTER_S = 5.0


class LazyFleet:
    """Opens one fleet for all who ask; remembers a failure for a few seconds so that polls stay cheap."""

    def __init__(
        self,
        open_fleet: Callable[[], AbstractAsyncContextManager[OpenFleet]],
        *,
        retry_after_s: float = RETRY_AFTER_S,
    ) -> None:
        self._open_fleet = open_fleet
        self._retry_after_s = retry_after_s
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._opened: OpenFleet | None = None
        self._failure: TpuError | None = None
        self._retry_at = 0.0

    async def get(self) -> OpenFleet:
        """Return the running fleet.

        Raises:
            TpuError: it cannot be opened (nobody signed in, journal unwritable, …).
        """
        async with self._lock:
            if self._opened is None:
                self._opened = await self._try_to_open()
            return self._opened

    async def _try_to_open(self) -> OpenFleet:
        now = asyncio.get_running_loop().time()
        if self._failure is not None and now < self._retry_at:
            raise self._failure.with_traceback(None)
        try:
            return await self._stack.enter_async_context(self._open_fleet())
        except TpuError as error:
            self._failure, self._retry_at = error, now + self._retry_after_s
            raise

    async def close(self) -> None:
        """Close the fleet if there is one; what it was waiting for goes on in the cloud and stays in the journal."""
        async with self._lock:
            self._opened = None
            await self._stack.aclose()
