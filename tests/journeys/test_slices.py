"""A notebook on all four workers of a slice while its laptop is away, and one whose server died during the start."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from journey_client import Cell, FrontEnd, open_session, outputs_of
from journey_place import GATES, Place, a_place, wait_for

from jupyter_tpu.emulator.network_faults.verbs import LinkFault

AWAY_S = 60 * float(os.environ.get("AWAY_MINUTES", "0"))
"""How long the cell prints while nobody is connected: no longer than it needs, unless `AWAY_MINUTES` is set."""

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600 + AWAY_S)]

LINES = [f"line {number}" for number in range(20_000)]
CUTS = 20
PRINTING = f"""
for number in range({len(LINES)}):
    if number <= 10_000 and number % (10_000 // {CUTS}) == 0:
        wait_at(f"line-{{number}}")
    if number > 10_000 and number % 100 == 0:
        _time.sleep({AWAY_S / 100})
    print("line", number)
come_to("end")
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with a_place(accelerator_type="v5litepod-16") as place:
        place.start_server()
        yield place


@contextlib.asynccontextmanager
async def a_tab(place: Place, kernel_id: str) -> AsyncIterator[FrontEnd]:
    tab = FrontEnd(place, kernel_id)
    try:
        await tab.connect()
        yield tab
    finally:
        await asyncio.to_thread(place.ask, "DELETE", f"api/kernels/{kernel_id}")
        await tab.close()


def allow(place: Place, gate: str) -> None:
    """Let the cell go on that waits for this file on all workers; see `GATES`."""
    for home in place.homes:
        (home / gate).touch()


async def come_to(place: Place, mark: str) -> None:
    """Wait until the cell has left this mark on all workers."""
    for home in place.homes:
        await asyncio.to_thread(wait_for, (home / mark).exists, place.agent_log, 180 + AWAY_S)


def folds_of(cell: Cell) -> list[str]:
    """What is shown of the other workers."""
    return [each["data"]["text/plain"] for each in outputs_of([cell])[0] if "data" in each]


async def test_a_cell_of_all_workers_is_whole_and_once_after_the_laptop_was_away(place: Place) -> None:
    kernel_id = await asyncio.to_thread(open_session, place, "away.ipynb")
    async with a_tab(place, kernel_id) as tab:
        await tab.run(GATES)
        cell = await tab.execute(PRINTING)
        for number in range(0, 10_000, 10_000 // CUTS):
            await come_to(place, f"at-line-{number}")
            seen = len(cell.messages)
            allow(place, f"line-{number}")
            await tab.until(lambda seen=seen: len(cell.messages) > seen)
            await asyncio.to_thread(place.fault_link, LinkFault(verb="reset"))
        await come_to(place, "at-line-10000")
        place.kill_server()
        await tab.lost()
        await asyncio.to_thread(place.kill_agent)
        allow(place, "line-10000")
        await come_to(place, "end")
        await asyncio.to_thread(place.start_server)
        await tab.connect()
        await tab.until(lambda: cell.is_done and bool(cell.replies))  # they come on different channels

        assert cell.text().splitlines() == LINES
        assert folds_of(cell) == ["workers 1-3: same output"]
        assert len(cell.replies) == 1
        assert await tab.run("print(6 * 7)") == "42\n"


async def runs_on_all_and_leaves_nothing(place: Place) -> None:
    """The next server completes the start of the only kernel, which then runs on all workers, and ends on all."""
    await asyncio.to_thread(place.start_server)
    (kernel,) = place.ask("GET", "api/kernels")
    async with a_tab(place, kernel["id"]) as tab:
        cell = await tab.execute("print('all')")
        await tab.until(lambda: cell.is_done)
        assert (cell.text(), folds_of(cell)) == ("all\n", ["workers 1-3: same output"])
        assert len(processes_of_slices(place)) >= 4
    await asyncio.to_thread(wait_for, lambda: not processes_of_slices(place), place.agent_log)


def processes_of_slices(place: Place) -> list[list[str]]:
    """The command lines of controllers and engines, on all workers."""
    lines = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            lines.append(process.cmdline())
    homes = [str(home) for home in place.homes]
    return [
        line
        for line in lines
        if any(home in " ".join(line) for home in homes) and {"--engine", "ipyparallel.controller"} & {*line}
    ]


async def test_the_next_server_completes_a_start_whose_server_was_killed_before_any_engine(place: Place) -> None:
    kernels = place.home / ".jupyter-tpu" / "kernels"
    with ThreadPoolExecutor() as pool:
        pool.submit(open_session, place, "started.ipynb")  # it may return just before the kill
        wait_for(lambda: [*kernels.glob("*/controller")], place.server_log)
        place.kill_server()
    await runs_on_all_and_leaves_nothing(place)


async def test_the_next_server_completes_a_start_whose_server_was_killed_between_two_engines(place: Place) -> None:
    # A Python with which no controller starts before the gate: so the server has not started any engine before that.
    gate, python = place.folder / "gate", place.folder / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *ipyparallel.controller*) until [ -e {gate} ]; do sleep 0.05; done;; esac\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    spec = place.folder / "data" / "kernels" / place.kernel_name / "kernel.json"
    content = json.loads(spec.read_text())
    content["metadata"]["kernel_provisioner"]["config"]["python"] = str(python)
    gated = spec.parents[1] / "gated" / spec.name
    gated.parent.mkdir()
    gated.write_text(json.dumps(content))
    slices = [home / ".jupyter-tpu" / "slices" for home in place.homes]
    with ThreadPoolExecutor() as pool:
        pool.submit(open_session, place, "started.ipynb", "gated")
        wait_for(lambda: processes_of_slices(place), place.server_log)
        (agent,) = place.agents(2)
        agent.suspend()  # worker 2 takes no call before the server dies
        gate.touch()
        wait_for(lambda: all([*slices[worker].glob("*/process.json")] for worker in (1, 3)), place.server_log)
        place.kill_server()
        agent.kill()  # with the calls that have reached it; its supervisor starts another
    assert not [*slices[2].glob("*/process.json")]
    await runs_on_all_and_leaves_nothing(place)
