"""An agent on a machine that is busy, for instance because it starts the agents of many emulated workers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psutil

from jupyter_tpu.link import Link


async def test_the_first_answer_of_an_agent_may_take_longer_than_later_ones(
    worker: Any, open_link: Callable[..., Awaitable[Link]]
) -> None:
    await open_link()
    agent = psutil.Process(worker.agent_pid())
    agent.suspend()
    opening = asyncio.create_task(open_link(silence_s=0.5))
    done, _ = await asyncio.wait([opening], timeout=5)
    agent.resume()
    assert not done
    assert (await opening).agent["pid"] == agent.pid
