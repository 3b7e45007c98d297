"""Run overlapping attempts, because an attempt that began during a network failure may hang after the failure ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")
OnActivity = Callable[[], None]
"""A function that an attempt calls whenever it receives data."""


async def first_outcome(
    attempt: Callable[[OnActivity], Awaitable[T]], *, silence_s: float, give_back: Callable[[T], None]
) -> T:
    """Start another `attempt` after each silent period until an attempt finishes; return its result or raise its error.

    Args:
        attempt: a coroutine function that calls its argument whenever it receives data, so that a slow attempt does not
            count as silent.
        silence_s: another attempt starts after this many seconds in which no attempt received data.
        give_back: called with the results of other attempts that succeeded at the same time.
    """
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Future[T]]()
    last_activity = loop.time()

    def on_activity() -> None:
        nonlocal last_activity
        last_activity = loop.time()

    try:
        while True:
            if not tasks or loop.time() >= last_activity + silence_s:
                if tasks:
                    log.info("nothing was received for %s s; another attempt starts", silence_s)
                tasks.add(asyncio.ensure_future(attempt(on_activity)))
                on_activity()  # a new attempt gets the full timeout
            left_s = last_activity + silence_s - loop.time()
            done, _ = await asyncio.wait(tasks, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            if done:
                # Also accept a failure: after a refusal or a wrong key, the other attempts would fail as well.
                first = done.pop()
                tasks.discard(first)
                return first.result()
    finally:
        await _abandon(tasks, give_back)


async def first_success(
    tasks: Sequence[asyncio.Task[T]], *, final: tuple[type[Exception], ...], give_back: Callable[[T], None]
) -> T:
    """Return the first result; if all tasks fail, raise the exception of the last one in `tasks`.

    Args:
        final: errors that end the wait immediately, because no other task can succeed after them.
        give_back: called with the results of other tasks that succeeded at the same time.
    """
    waiting: set[asyncio.Task[T]] = set(tasks)
    result: T | None = None
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if task.exception() is None or isinstance(task.exception(), final):
                    result = task.result()
                    return result
        return tasks[-1].result()
    finally:
        # The successful task is also in `tasks` and must not be given back.
        await _abandon(tasks, lambda other: None if other is result else give_back(other))


async def _abandon(tasks: Collection[asyncio.Future[T]], give_back: Callable[[T], None]) -> None:
    for task in tasks:
        task.cancel()
    # A task may succeed just before its cancellation, and only this code can close its connection.
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(outcome, BaseException):
            give_back(outcome)
