"""A worker's wall clock that is wrong, or is set while the agent runs, loses no record and moves no end of the node."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.worker_clock import VARIABLE, set_error

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
RULES = {"idle_after_s": None, "session_s": None, "action": "stop"}
FAIL = """\
import os, time
print("on", flush=True)
while not os.path.exists({end!r}):
    time.sleep(0.05)
1 / 0
"""


@pytest.fixture(autouse=True)
def clock(worker: Any, tmp_path: Path) -> Path:
    """The error of the worker's clock, for `set_error`."""
    path = tmp_path / "clock"
    set_error(path, 0.0)
    worker.env[VARIABLE] = str(path)
    return path


async def test_an_agent_that_starts_with_a_clock_days_ahead_keeps_the_output_of_ended_kernels(
    client: Any, worker: Any, open_link: Any, clock: Path
) -> None:
    await client.start()
    await client.run("print('kept')")
    await client.link.call("kill_kernel", {"kernel_id": client.kernel_id})
    await client.event("exited")
    set_error(clock, 8 * DAY_S)
    for _ in range(2):  # the second one finds what the first one has stored
        worker.kill(worker.agent_pid())
        other = type(client)(await open_link())
        listed = (await other.link.call("list_kernels", {}))["kernels"]
        assert [kernel["kernel_id"] for kernel in listed] == [client.kernel_id]
        other.attach()
        await other.event("exited")
        assert other.printed() == "kept\n"


@pytest.mark.parametrize("step_s", [-7 * DAY_S, 7 * DAY_S])
async def test_a_cell_that_waited_for_the_link_behind_a_failed_one_is_aborted_though_the_clock_was_set(
    client: Any, worker: Any, open_link: Any, clock: Path, tmp_path: Path, step_s: float
) -> None:
    await client.start()
    other = type(client)(await open_link())
    other.attach()
    failed = client.execute(FAIL.format(end=str(tmp_path / "end")), stop_on_error=True)
    await other.wait(lambda message: message.get("msg_type") == "stream")

    worker.refuses_connections = True
    worker.connections[0].cut()
    queued = client.execute("print('queued')")
    await asyncio.to_thread((tmp_path / "end").touch)
    await other.reply(failed)
    later = client.execute("print('later')")
    set_error(clock, step_s)
    worker.refuses_connections = False

    assert (await client.reply(queued))["content"]["status"] == "aborted"
    assert (await client.reply(later))["content"]["status"] == "ok"
    assert client.printed() == "on\nlater\n"


@pytest.mark.parametrize("step_s", [-DAY_S, DAY_S])
async def test_an_end_and_its_extension_come_when_they_were_meant_to_though_the_clock_was_set(
    client: Any, worker: Any, clock: Path, step_s: float
) -> None:
    rules = {**RULES, "deadline_in_s": 2 * HOUR_S}
    await client.link.call("set_brakes", {"rules": rules, "revision": 1})
    await client.link.call("keep", {"for_s": HOUR_S})
    for at_s in (step_s, 0.0):
        set_error(clock, at_s)
        found = await client.link.call("activity")
        assert (found["ends_why"], found["ends_in_s"]) == ("deadline", pytest.approx(2 * HOUR_S, abs=300))
        assert found["keep"]["for_s"] == pytest.approx(HOUR_S, abs=300)
    set_error(clock, step_s)
    worker.kill(worker.agent_pid())
    found = await client.link.call("activity")
    assert (found["ends_in_s"], found["keep"]["for_s"]) == pytest.approx((2 * HOUR_S, HOUR_S), abs=300)


@pytest.mark.parametrize("step_s", [-DAY_S, DAY_S])
async def test_ages_and_samples_stay_what_they_were_though_the_clock_was_set(
    client: Any, clock: Path, step_s: float
) -> None:
    await client.start()
    await client.run("print('hello')")
    before = await samples(client, at_least=2)
    set_error(clock, step_s)
    after = await samples(client, at_least=len(before))
    assert after == sorted(after, reverse=True)
    assert -5 < after[-1] < 300
    assert len(after) >= len(before)

    info = await client.link.call("kernel_info", {"kernel_id": client.kernel_id})
    (cell,) = (await client.link.call("list_requests", {"kernel_id": client.kernel_id}))["requests"]
    times = [info["state_since"], info["last_output_at"], cell["asked_at"], cell["started_at"], cell["ended_at"]]
    assert [age for at in times if not -5 < (age := info["now"] - at) < 300] == []
    assert 0 <= (await client.link.call("status"))["uptime_s"] < 300


async def samples(client: Any, at_least: int) -> list[float]:
    """The ages of at least so many samples, oldest first."""
    async with asyncio.timeout(60):
        while True:
            found = await client.link.call("metrics", {"history_s": 600})
            if len(found["history"]["at"]) >= at_least:
                return [found["now"] - at for at in found["history"]["at"]]
            await asyncio.sleep(0.2)
