"""Attempts that overlap: one that was begun while the path was down may stay silent long after the path is back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def first_outcome(attempt: Callable[[], Awaitable[T]], *, every_s: float, give_back: Callable[[T], None]) -> T:
    """Begin `attempt` again every so often until one has an outcome, which is returned or raised.

    Args:
        give_back: called with the results of other attempts that had one at the same time.
    """
    tasks: set[asyncio.Future[T]] = set()
    try:
        while True:
            tasks.add(asyncio.ensure_future(attempt()))
            done, _ = await asyncio.wait(tasks, timeout=every_s, return_when=asyncio.FIRST_COMPLETED)
            if done:
                first = done.pop()
                tasks.discard(first)
                return first.result()
    finally:
        await _abandon(tasks, give_back)


async def _abandon(tasks: set[asyncio.Future[T]], give_back: Callable[[T], None]) -> None:
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(outcome, BaseException):
            give_back(outcome)
