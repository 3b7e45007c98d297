"""Work on things in the order in which they came, one after another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

Thing = TypeVar("Thing")


class SerialExecutor(Generic[Thing]):
    """A queue with one worker: what came later never overtakes what came first, nor is undone by it.

    Args:
        perform: awaited with each thing; the next one waits until it has ended, whether it failed or not.
        log: hears what failed.
    """

    def __init__(self, perform: Callable[[Thing], Awaitable[None]], log: Any) -> None:
        self._perform = perform
        self.log: logging.Logger = log
        self._waiting: asyncio.Queue[Thing] = asyncio.Queue()

    def put(self, thing: Thing) -> None:
        """Called in the event loop; never waits."""
        self._waiting.put_nowait(thing)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            thing = await self._waiting.get()
            try:
                await self._perform(thing)
            except Exception:
                self.log.exception("What followed from %r failed.", thing)
