"""The cloud's virtual time, which the control API scales, pauses and moves ahead. It is restored after a restart."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from jupyter_tpu.emulator.engine.timeline import Timeline
from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.clock import RealTime, VirtualClock
from jupyter_tpu.emulator.store.settings import Facts, StoredSetting

DEFAULT_SCALE = 10.0
"""Virtual seconds per real second: creating a node takes 90 virtual seconds, and therefore 9 real ones."""

PATIENCE_S = 20.0
"""Maximum duration of a jump in real seconds, because a request of the control API waits for it."""

LAST_MOMENT = 221_845_392_000.0
"""The end of the year 8999. Timestamps of the API end with the year 9999."""


def restored_clock(
    facts: Facts, *, start: float, scale: float | None, real_time: RealTime = time.monotonic
) -> VirtualClock:
    """Return a clock that starts at `start`; if `scale` is None, it has the scale of the last run."""
    kept = _setting(facts).read() or {}
    return VirtualClock(
        start=start,
        scale=scale or kept.get("scale", DEFAULT_SCALE),
        is_paused=kept.get("paused", False),
        real_time=real_time,
    )


def _setting(facts: Facts) -> StoredSetting:
    return StoredSetting(facts, "clock")


class VirtualTime:
    """The cloud's clock; each change to the clock resets the timeline's timer."""

    def __init__(self, facts: Facts, clock: VirtualClock, timeline: Timeline) -> None:
        self._setting = _setting(facts)
        self._clock = clock
        self._timeline = timeline
        self._first_scale = clock.scale
        self._jumping = asyncio.Lock()

    def run(self, *, scale: float | None = None, is_paused: bool | None = None) -> None:
        """Change the speed of virtual time, or pause or resume it. An argument that is None changes nothing."""
        if scale is not None:
            self._clock.set_scale(scale)
        if is_paused is not None:
            self._clock.pause() if is_paused else self._clock.resume()
        self._setting.write({"scale": self._clock.scale, "paused": self._clock.is_paused})
        self._timeline.arm()

    @assumed(
        "jumps-are-stepped",
        "When virtual time jumps, each event in between happens at its scheduled time and in order, however long "
        "the jump is.",
    )
    async def jump(self, seconds: float) -> None:
        """Move virtual time ahead by `seconds` and wait for the actions that become due.

        Raises:
            ValueError: the target is after `LAST_MOMENT`.
        """
        # overlapping jumps would all start from the same time, so their sum would be too short
        async with self._jumping:
            target = self._clock.now() + seconds
            if target > LAST_MOMENT:
                raise ValueError("the emulated clock cannot pass the year 9000")
            # stop the clock, so that virtual time doesn't advance while the acts run in real time
            with self._clock.held():
                await self._step_to(target)
        self._timeline.arm()

    async def _step_to(self, target: float) -> None:
        """Move the clock to the target, in steps.

        If the actions, such as the start of thousands of workers, take longer than `PATIENCE_S` of real time, they
        finish after the clock has reached the target.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await self._step_through(target)
        self._clock.move_to(target)

    async def _step_through(self, target: float) -> None:
        """Move the clock from one due action to the next, so that no node is billed after its end."""
        await self._timeline.settled()
        while (moment := self._timeline.next_moment()) is not None and moment <= target:
            self._clock.move_to(moment)
            await self._timeline.settled()

    def reset(self) -> None:
        """Reset the scale to its initial value, and resume the clock."""
        self._clock.set_scale(self._first_scale)
        self._clock.resume()
        self._setting.delete()

    def to_json(self) -> dict[str, Any]:
        """Return the clock as the control API shows it."""
        return {"now": self._clock.now(), "scale": self._clock.scale, "paused": self._clock.is_paused}
