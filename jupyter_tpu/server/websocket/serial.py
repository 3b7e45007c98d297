"""Process items one at a time, in the order in which they were added."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


class SerialExecutor(Generic[Item]):
    """A queue with one consumer, so that a later item never overtakes an earlier one.

    Args:
        perform: a coroutine function that is called with each item; the next call starts after it has returned or
            raised.
        log: a logger for exceptions from `perform`.
    """

    def __init__(self, perform: Callable[[Item], Awaitable[None]], log: Any) -> None:
        self._perform = perform
        self.log: logging.Logger = log
        self._waiting: asyncio.Queue[Item] = asyncio.Queue()

    def put(self, item: Item) -> None:
        """Add an item without waiting; call this in the event loop."""
        self._waiting.put_nowait(item)

    async def run(self) -> None:
        """Process the queued items, one at a time, until cancelled."""
        while True:
            item = await self._waiting.get()
            try:
                await self._perform(item)
            except Exception:
                self.log.exception("Processing %r failed.", item)
