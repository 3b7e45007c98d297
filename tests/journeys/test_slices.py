"""A notebook on all four workers of a slice while its laptop is away, and one whose server died during the start."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from journey_client import Cell, FrontEnd, open_session, outputs_of
from journey_place import GATES, Place, a_place, wait_for

from jupyter_tpu.emulator.network_faults.verbs import LinkFault

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

LINES = [f"line {number}" for number in range(20_000)]
CUTS = 20
PRINTING = f"""
for number in range({len(LINES)}):
    if number <= 10_000 and number % (10_000 // {CUTS}) == 0:
        wait_at(f"line-{{number}}")
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
        await asyncio.to_thread(wait_for, (home / mark).exists, place.agent_log)


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
        await tab.until(lambda: cell.is_done)

        assert cell.text().splitlines() == LINES
        assert folds_of(cell) == ["workers 1-3: same output"]
        assert len(cell.replies) == 1
        assert await tab.run("print(6 * 7)") == "42\n"


async def test_a_server_killed_while_a_slice_starts_leaves_one_that_a_restart_completes(place: Place) -> None:
    with ThreadPoolExecutor() as pool:
        kernels = place.home / ".jupyter-tpu" / "kernels"
        earlier = {*kernels.glob("*/controller")}
        pool.submit(open_session, place, "started.ipynb")  # it may return just before the kill
        wait_for(lambda: {*kernels.glob("*/controller")} - earlier, place.server_log)
        place.kill_server()
    await asyncio.to_thread(place.start_server)
    (kernel,) = place.ask("GET", "api/kernels")
    async with a_tab(place, kernel["id"]) as tab:
        await tab.execute("print('all')")
        await tab.until(lambda: "Restart the kernel" in str(tab.messages))
        await asyncio.to_thread(place.ask, "POST", f"api/kernels/{kernel['id']}/restart")
        again = await tab.execute("print('all')")
        await tab.until(lambda: again.is_done)
        assert (again.text(), folds_of(again)) == ("all\n", ["workers 1-3: same output"])
