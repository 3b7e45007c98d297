"""After a sleep of the machine a path is doubted at once, and nobody waits for the next attempt."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from virtual_loop import VirtualLoop

from jupyter_tpu.errors import WorkerUnreachable
from jupyter_tpu.link import Link
from jupyter_tpu.link.backoff import Attempts
from jupyter_tpu.link.wake import SleepSensor, boot_seconds, read_clocks


@pytest.mark.parametrize(
    ("awake_s", "boot_s", "slept"),
    [
        (1.0, 1.0, False),
        (2.5, 2.5, False),  # a busy loop
        (1.0, 3600.0, True),  # the lid was closed
        (1.0, 1.9, False),  # the clocks are not read at the same moment
        (9.0, 9.0, True),  # the process stood still, or this clock counts sleep
    ],
)
def test_a_sleep_shows_in_the_clocks(awake_s: float, boot_s: float, slept: bool) -> None:
    sensor = SleepSensor(100.0, 5000.0)
    assert sensor.has_slept(100.0 + awake_s, 5000.0 + boot_s) is slept
    assert not sensor.has_slept(101.0 + awake_s, 5001.0 + boot_s), "told once"


def test_the_machines_clocks_can_be_read() -> None:
    clocks = read_clocks()
    assert not SleepSensor(*clocks).has_slept(*clocks)


def test_the_clock_of_what_waits_runs_on_in_a_sleep() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= boot_seconds() <= time.clock_gettime(time.CLOCK_BOOTTIME)


async def test_a_message_that_waited_over_a_sleep_is_as_old_as_the_sleep_was_long(place: Any, new_ear: Any) -> None:
    kernel, ear, slept_s = place.new_kernel(), new_ear(), 0.0
    link = place.link(clock=lambda: boot_seconds() + slept_s)
    await link.open()
    stream = ear.attach(link, kernel)
    stream.send("shell", [b"", b"in time"])
    await ear.count(1)

    place.connection.stream.cut()
    stream.send("shell", [b"", b"as the lid closed"])
    slept_s = 3600.0
    await ear.count(2)

    in_time, late = kernel.requested_at
    assert in_time is None
    assert boot_seconds() - late == pytest.approx(3600, abs=60)
    await link.close()


async def test_a_wake_ends_the_pause_between_attempts() -> None:
    attempts = Attempts(hurried_s=5)
    async with asyncio.timeout(60):
        for _ in range(500):  # by then a pause takes 2 s
            attempts.hurry()
            await attempts.pause()


def test_after_a_wake_the_pauses_are_short_again() -> None:
    async def pauses_s() -> tuple[float, float]:
        attempts, loop = Attempts(hurried_s=5), asyncio.get_running_loop()
        for _ in range(2000):
            await attempts.pause()
        moments = [loop.time()]
        await attempts.pause()
        moments.append(loop.time())
        attempts.hurry()
        for _ in range(3):
            await attempts.pause()
        return moments[1] - moments[0], loop.time() - moments[1]

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        before_s, after_s = runner.run(pauses_s())
    assert before_s == pytest.approx(15, abs=0.1)
    assert after_s == pytest.approx(0.5, abs=0.1)  # none at all, none, and half a second


async def test_a_connection_that_is_being_opened_has_little_time_left_after_a_wake() -> None:
    is_connecting = asyncio.Event()

    async def connect() -> Any:
        if is_connecting.is_set():
            raise WorkerUnreachable("The worker is not responding.")
        is_connecting.set()
        await asyncio.Event().wait()

    is_down = asyncio.Event()
    link = Link(connect, silence_s=0.3, on_state=lambda state, error, since: is_down.set() if state == "down" else None)
    link.begin()
    await is_connecting.wait()
    link.hurry()
    async with asyncio.timeout(60):
        await is_down.wait()
    await link.close()


async def test_a_live_path_survives_the_doubt(place: Any, new_ear: Any) -> None:
    kernel, ear, states = place.new_kernel(), new_ear(), []
    link = place.link(on_state=lambda state, error, since: states.append(state), silence_s=60)
    await link.open()
    ear.attach(link, kernel)
    for number in range(5):
        link.hurry()
        kernel.say(3, b"%d" % number)
        await ear.count(number + 1)
    assert states == ["connecting", "live"]
    await link.close()


async def test_a_state_keeps_its_beginning_while_attempts_fail() -> None:
    told: list[tuple[str, float]] = []
    is_enough = asyncio.Event()

    async def connect() -> Any:
        raise WorkerUnreachable("The worker is not responding.")

    def on_state(state: str, error: object, since: float) -> None:
        told.append((state, since))
        link.hurry()
        if len(told) > 20:
            is_enough.set()

    link = Link(connect, on_state=on_state)
    link.begin()
    async with asyncio.timeout(60):
        await is_enough.wait()
    assert told[0][0] == "connecting"
    assert {state for state, _ in told[1:21]} == {"down"}
    assert len({since for _, since in told[1:21]}) == 1
    await link.close()
