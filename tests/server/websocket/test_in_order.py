"""Changes are worked on in the order in which they came."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from jupyter_tpu.server.websocket.serial import SerialExecutor

Perform = Callable[[int], Awaitable[None]]


@asynccontextmanager
async def at_work(perform: Perform) -> AsyncIterator[SerialExecutor[int]]:
    queue = SerialExecutor(perform, logging.getLogger(__name__))
    running = asyncio.create_task(queue.run())
    try:
        yield queue
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_a_change_that_takes_long_is_not_overtaken_by_the_next() -> None:
    done: list[int] = []
    first_may_end, all_done = asyncio.Event(), asyncio.Event()

    async def perform(number: int) -> None:
        if number == 1:
            await first_may_end.wait()
        done.append(number)
        if number == 2:
            all_done.set()

    async with at_work(perform) as queue:
        queue.put(1)
        queue.put(2)
        for _ in range(10):  # turns of the loop in which the second could overtake
            await asyncio.sleep(0)
        first_may_end.set()
        await asyncio.wait_for(all_done.wait(), 120)

    assert done == [1, 2]


async def test_one_that_fails_is_logged_and_does_not_hold_up_the_next(caplog: pytest.LogCaptureFixture) -> None:
    second_done = asyncio.Event()

    async def perform(number: int) -> None:
        if number == 1:
            raise ValueError("the first fails")
        second_done.set()

    async with at_work(perform) as queue:
        queue.put(1)
        queue.put(2)
        await asyncio.wait_for(second_done.wait(), 120)

    assert "the first fails" in caplog.text
