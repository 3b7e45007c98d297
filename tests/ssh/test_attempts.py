"""Attempts that overlap, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from virtual_loop import VirtualLoop

from jupyter_tpu.ssh.attempts import first_outcome


@pytest.mark.parametrize(("pause_s", "attempts"), [(1.9, 1), (2.1, 2)], ids=["it answers slowly", "it falls silent"])
def test_another_attempt_starts_after_a_silence_and_not_because_the_first_takes_long(
    pause_s: float, attempts: int
) -> None:
    started = 0

    async def handshake(on_activity: Callable[[], None]) -> str:
        nonlocal started
        started += 1
        for _ in range(9):
            await asyncio.sleep(pause_s if started == 1 else 0.1)
            on_activity()
        return "connected"

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        outcome = runner.run(first_outcome(handshake, silence_s=2.0, give_back=str))
    assert (outcome, started) == ("connected", attempts)
