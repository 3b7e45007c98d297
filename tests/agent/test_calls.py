"""Calls of clients that are repeated, or forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.agent.calls import Calls


class SlowMethods:
    """Methods of an agent; `slow` runs until it is released."""

    def __init__(self) -> None:
        self.performed: list[str] = []
        self.may_end = asyncio.Event()

    def announce(self, call: Mapping[str, Any]) -> None:
        """Nothing is to be prepared."""

    async def perform(self, call: Mapping[str, Any]) -> dict[str, Any]:
        self.performed.append(call["method"])
        if call["method"] == "slow":
            await self.may_end.wait()
        return {}


async def test_a_running_call_is_not_run_again_however_many_clients_came_since() -> None:
    methods = SlowMethods()
    calls = Calls(methods)  # type: ignore[arg-type]
    first = calls.perform("a", 1, {"method": "slow"})
    for number in range(1100):
        await calls.perform(f"client {number}", 1, {"method": "quick"})
    repeated = calls.perform("a", 1, {"method": "slow"})
    methods.may_end.set()
    assert await asyncio.gather(first, repeated) == [{"result": {}}] * 2
    assert methods.performed.count("slow") == 1


async def test_clients_at_rest_are_forgotten_the_oldest_first() -> None:
    methods = SlowMethods()
    calls = Calls(methods)  # type: ignore[arg-type]
    for number in range(1100):
        await calls.perform(f"client {number}", 1, {"method": "quick"})
    await calls.perform("client 1099", 1, {"method": "quick"})
    await calls.perform("client 0", 1, {"method": "quick"})
    assert methods.performed.count("quick") == 1101
