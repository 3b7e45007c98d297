"""A cell prints 100 lines while its front end goes and comes back: 100 of 100, none twice, and the kernel lives."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import pytest
from journey_client import Cell, FrontEnd, open_session
from journey_place import GATES, Place, a_place
from tiers import SSHD_KINDS, mostly_nightly

from jupyter_tpu.emulator.network_faults.fault_proxy import FaultProxy
from jupyter_tpu.emulator.network_faults.verbs import link_fault_from_json

pytestmark = [pytest.mark.timeout(600)]

LINES = [f"line {number}" for number in range(100)]
HUNDRED_LINES = """
for number in range(100):
    if number in (30, 60):
        wait_at(f"{run}-{number}")
    print("line", number, flush=True)
come_to(f"{run}-end")
"""


@pytest.fixture(scope="module", params=SSHD_KINDS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with a_place("--sshd", request.param) as place:
        place.start_server()
        yield place


@dataclass
class Journey:
    """A kernel, the tab that started it, and its cell of 100 lines."""

    place: Place
    tab: FrontEnd
    run: str
    pid: str
    tabs: list[FrontEnd] = field(default_factory=list)

    async def begin(self) -> Cell:
        """The tab sees the first 30 lines; the cell waits to go on."""
        cell = await self.tab.execute(HUNDRED_LINES)
        await self.tab.until(lambda: cell.text().count("\n") == 30)
        await self.tab.settle()
        return cell

    async def print_on(self, gate: int) -> None:
        """Print the next lines, up to the next gate or the end, even if no client listens."""
        self.place.allow(f"{self.run}-{gate}")
        following = f"at-{self.run}-60" if gate == 30 else f"{self.run}-end"
        await asyncio.to_thread(self.place.wait_for_mark, following)

    def new_tab(self, port: int = 0) -> FrontEnd:
        self.tabs.append(FrontEnd(self.place, self.tab.kernel_id, port=port))
        return self.tabs[-1]

    async def assert_all_is_there(self, tab: FrontEnd, cell: Cell) -> None:
        await tab.until(lambda: cell.is_done)
        assert cell.text().splitlines() == LINES
        assert await tab.run("import os; print(os.getpid())") == self.pid, "it is another kernel"


@pytest.fixture
async def journey(place: Place) -> AsyncIterator[Journey]:
    run = f"run-{uuid.uuid4().hex[:8]}"
    tab = FrontEnd(place, await asyncio.to_thread(open_session, place, f"{run}.ipynb"))
    async with contextlib.AsyncExitStack() as at_the_end:
        at_the_end.push_async_callback(asyncio.to_thread, place.ask, "DELETE", f"api/kernels/{tab.kernel_id}")
        at_the_end.push_async_callback(tab.close)
        await tab.connect()
        await tab.run(f"{GATES}\nrun = {run!r}")
        journey = Journey(place, tab, run, await tab.run("import os; print(os.getpid())"))
        yield journey
        for each in journey.tabs:
            await each.close()


async def test_a_dropped_connection_that_comes_back_misses_nothing(journey: Journey) -> None:
    cell = await journey.begin()
    await journey.tab.drop()
    await journey.print_on(30)
    await journey.tab.connect()
    await journey.print_on(60)

    await journey.assert_all_is_there(journey.tab, cell)
    assert len(cell.replies) == 1


async def test_a_tab_that_is_opened_again_shows_everything(journey: Journey) -> None:
    cell = await journey.begin()
    await journey.tab.drop()
    await journey.print_on(30)
    tab = journey.new_tab()
    same = tab.look_at(cell)
    await tab.connect()
    await journey.print_on(60)

    await journey.assert_all_is_there(tab, same)


async def test_a_tab_that_is_opened_after_the_cell_has_ended_shows_everything(journey: Journey) -> None:
    cell = await journey.begin()
    await journey.tab.drop()
    await journey.print_on(30)
    await journey.print_on(60)
    tab = journey.new_tab()
    same = tab.look_at(cell)
    await tab.connect()

    await journey.assert_all_is_there(tab, same)


async def test_another_client_in_between_takes_nothing_away(journey: Journey) -> None:
    cell = await journey.begin()
    await journey.tab.drop()
    visitor = journey.new_tab()
    await visitor.connect()
    seen = visitor.look_at(cell)
    await journey.print_on(30)
    await visitor.until(lambda: seen.text().count("\n") == 60)
    await visitor.drop()
    await journey.tab.connect()
    await journey.print_on(60)

    await journey.assert_all_is_there(journey.tab, cell)
    assert len(cell.replies) == 1


async def test_a_half_open_connection_misses_nothing(journey: Journey) -> None:
    path = FaultProxy(("127.0.0.1", journey.place.port))
    path.listen(("127.0.0.1", 0))
    await journey.tab.drop()
    journey.tab.port = path.port
    await journey.tab.connect()
    cell = await journey.begin()

    path.apply(link_fault_from_json({"verb": "black_hole"}))
    await journey.print_on(30)
    journey.tab.abandon()
    journey.tab.port = journey.place.port  # not by the hole: the abandoned connection still answers whatever arrives
    await journey.tab.connect()
    await journey.print_on(60)

    await journey.assert_all_is_there(journey.tab, cell)
    assert len(cell.replies) == 1
    await journey.tab.drop()
    await path.close()


@pytest.mark.parametrize("is_reloaded", mostly_nightly([False, True], count=1), ids=["same tab", "reloaded"])
async def test_a_killed_server_loses_nothing(journey: Journey, is_reloaded: bool) -> None:
    cell = await journey.begin()
    journey.place.kill_server()
    await journey.tab.lost()
    await journey.print_on(30)
    await asyncio.to_thread(journey.place.start_server)
    assert [each["id"] for each in journey.place.ask("GET", "api/kernels")] == [journey.tab.kernel_id]
    tab = journey.new_tab() if is_reloaded else journey.tab
    same = tab.look_at(cell)
    await tab.connect()
    await journey.print_on(60)

    await journey.assert_all_is_there(tab, same)
