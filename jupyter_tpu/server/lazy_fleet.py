"""Open the fleet when it is first needed; retry after a failure.

The server must start without a cloud, and must not need a restart when the user signs in later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from jupyter_tpu.errors import TpuError
from jupyter_tpu.fleet.assembly import OpenFleet

RETRY_AFTER_S = 5.0
"""How long a failure is repeated to all callers, in seconds.

Open panels poll every few seconds, and each attempt may call Google.
"""


class LazyFleet:
    """A fleet shared by all callers. After a failure, it raises the same error for a few seconds, so polls are fast.

    Args:
        open_fleet: a function that returns a context manager, which opens a fleet.
        retry_after_s: seconds for which the same error is raised without a retry.
    """

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
        """Return the running fleet; open it if needed.

        Raises:
            TpuError: the fleet can't be opened (no credentials, journal not writable and so on).
        """
        async with self._lock:
            if self._opened is None:
                self._opened = await self._try_to_open()
            return self._opened

    async def _try_to_open(self) -> OpenFleet:
        now = asyncio.get_running_loop().time()
        if self._failure is not None and now < self._retry_at:
            raise self._failure.with_traceback(None)  # without this, the traceback would grow with each poll
        try:
            return await self._stack.enter_async_context(self._open_fleet())
        except TpuError as error:
            self._failure, self._retry_at = error, now + self._retry_after_s
            raise

    async def reopen(self) -> None:
        """Close the fleet after a change of settings; the next `get` opens it again, even shortly after a failure."""
        await self.close()
        self._failure, self._retry_at = None, 0.0

    async def close(self) -> None:
        """Close the fleet if it is open; pending operations continue in the cloud and remain in the journal."""
        async with self._lock:
            self._opened = None
            await self._stack.aclose()
