"""JupyterLab in a real browser: a cell prints 100 lines while the page, its connection or its server goes away."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import nbformat
import pytest
from journey_client import FrontEnd
from journey_place import GATES, Place, a_place
from playwright.async_api import BrowserContext, Page, async_playwright
from tiers import mostly_nightly

from jupyter_tpu.emulator.network_faults.fault_proxy import FaultProxy
from jupyter_tpu.emulator.network_faults.verbs import link_fault_from_json

pytestmark = [pytest.mark.system("chromium"), pytest.mark.timeout(600)]

LINES = [f"line {number}" for number in range(100)]
HUNDRED_LINES = """
for number in range(100):
    if number in (30, 60):
        wait_at(f"{run}-{number}")
    print("line", number, flush=True)
come_to(f"{run}-end")
"""
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
WITHIN_MS = 180_000

# the server asks each page every two seconds whether it is there, so that it notices a half-open one in the test's time
PINGS = "--ServerApp.tornado_settings={'ws_ping_interval': 2000, 'ws_ping_timeout': 4000}"

KERNEL_IS_IDLE = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
TEXT = """() => {
  const cells = window.jupyterapp?.shell.currentWidget?.content?.widgets ?? [];
  const outputs = cells[1]?.model?.outputs?.toJSON() ?? [];
  return outputs.map(output => [output.text ?? ''].flat().join('')).join('');
}"""
PROMPT = "() => window.jupyterapp.shell.currentWidget.content.widgets[1].model.executionCount"
RUN_ALL = "() => { void window.jupyterapp.commands.execute('notebook:run-all-cells'); }"
SAVE = "() => window.jupyterapp.commands.execute('docmanager:save')"


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with a_place() as place:
        place.start_server(PINGS)
        yield place


@dataclass
class Journey:
    """A notebook in JupyterLab, and the path between the browser and the server."""

    place: Place
    path: FaultProxy
    browser: BrowserContext
    page: Page
    run: str

    def fault(self, verb: str) -> None:
        self.path.apply(link_fault_from_json({"verb": verb}))

    async def open(self) -> None:
        """The notebook, in a new page."""
        self.page = await self.browser.new_page()
        self.page.set_default_timeout(WITHIN_MS)
        url = f"http://127.0.0.1:{self.path.port}/lab/tree/{self.run}.ipynb?token={self.place.token}&reset"
        await self.page.goto(url)

    async def begin(self) -> None:
        """The page shows the first 30 lines; the cell waits to go on."""
        await self.open()
        await self.page.wait_for_function(KERNEL_IS_IDLE)
        await self.page.evaluate(RUN_ALL)
        await self.until_lines(30)
        self.pid = await self._pid_file()

    async def until_lines(self, count: int) -> None:
        await self.page.wait_for_function(f"() => ({TEXT})().split('\\n').length > {count}")

    async def print_on(self, gate: int) -> None:
        self.place.allow(f"{self.run}-{gate}")
        following = f"at-{self.run}-60" if gate == 30 else f"{self.run}-end"
        await asyncio.to_thread(self.place.wait_for_mark, following)

    async def _pid_file(self) -> str:
        return (self.place.home / f"pid-{self.run}").read_text()

    def kernel_id(self) -> str:
        (session,) = [each for each in self.place.ask("GET", "api/sessions") if each["path"] == f"{self.run}.ipynb"]
        return str(session["kernel"]["id"])

    async def assert_all_is_there(self) -> None:
        await self.page.wait_for_function(f"() => ({TEXT})().includes('line 99') && ({PROMPT})() === 2")
        assert (await self.page.evaluate(TEXT)).splitlines() == LINES
        visitor = FrontEnd(self.place, await asyncio.to_thread(self.kernel_id))
        await visitor.connect()
        assert await visitor.run("print(os.getpid())") == f"{self.pid}\n", "it is another kernel"
        await visitor.close()


@pytest.fixture
async def journey(place: Place, chromium: str, tmp_path: Any) -> AsyncIterator[Journey]:
    run = f"run-{uuid.uuid4().hex[:8]}"
    _write_notebook(place, run)
    path = FaultProxy(("127.0.0.1", place.port))
    path.listen(("127.0.0.1", 0))
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch_persistent_context(
            str(tmp_path / "chromium"), executable_path=chromium, headless=True, args=FLAGS
        )
        journey = Journey(place, path, browser, browser.pages[0], run)
        yield journey
        await browser.close()
    await path.close()
    await asyncio.to_thread(place.ask, "DELETE", f"api/kernels/{journey.kernel_id()}")


def _write_notebook(place: Place, run: str) -> None:
    first = f"{GATES}\nrun = {run!r}\nimport os\n_ = (_Path.home() / f'pid-{{run}}').write_text(str(os.getpid()))"
    cells = [nbformat.v4.new_code_cell(source) for source in (first, HUNDRED_LINES)]
    kernelspec = {"name": place.kernel_name, "display_name": place.kernel_name, "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernelspec})
    nbformat.write(notebook, place.notebooks / f"{run}.ipynb")


@pytest.mark.nightly
async def test_a_dropped_connection_that_comes_back_misses_nothing(journey: Journey) -> None:
    await journey.begin()
    journey.fault("refuse")
    journey.fault("finish")
    await journey.print_on(30)
    journey.fault("clear")
    await journey.print_on(60)

    await journey.assert_all_is_there()


@pytest.mark.nightly
async def test_a_tab_that_is_opened_again_shows_everything(journey: Journey) -> None:
    await journey.begin()
    await journey.page.close()
    await journey.print_on(30)
    await journey.open()
    await journey.until_lines(60)
    await journey.print_on(60)

    await journey.assert_all_is_there()


@pytest.mark.nightly
async def test_a_tab_that_is_opened_after_the_cell_has_ended_shows_everything(journey: Journey) -> None:
    await journey.begin()
    await journey.page.close()
    await journey.print_on(30)
    await journey.print_on(60)
    await journey.open()

    await journey.assert_all_is_there()


@pytest.mark.nightly
async def test_a_notebook_that_was_saved_half_way_shows_everything(journey: Journey) -> None:
    await journey.begin()
    await journey.page.evaluate(SAVE)
    await journey.page.close()
    await journey.print_on(30)
    await journey.print_on(60)
    await journey.open()

    await journey.assert_all_is_there()


@pytest.mark.nightly
async def test_another_client_in_between_takes_nothing_away(journey: Journey) -> None:
    await journey.begin()
    journey.fault("refuse")
    journey.fault("finish")
    visitor = FrontEnd(journey.place, await asyncio.to_thread(journey.kernel_id))
    await visitor.connect()
    await journey.print_on(30)
    await visitor.until(lambda: any("line 59" in str(m["content"].get("text")) for m in visitor.messages))
    await visitor.close()
    journey.fault("clear")
    await journey.print_on(60)

    await journey.assert_all_is_there()


@pytest.mark.nightly
async def test_a_half_open_connection_misses_nothing(journey: Journey) -> None:
    await journey.begin()
    journey.fault("black_hole")
    await journey.print_on(30)
    await asyncio.to_thread(journey.place.wait_until_alone, journey.kernel_id())
    journey.fault("clear")
    await journey.print_on(60)

    await journey.assert_all_is_there()


@pytest.mark.parametrize("is_reloaded", mostly_nightly([True, False], count=1), ids=["reloaded", "same page"])
async def test_a_killed_server_loses_nothing(journey: Journey, is_reloaded: bool) -> None:
    await journey.begin()
    journey.place.kill_server()
    await journey.print_on(30)
    await asyncio.to_thread(journey.place.start_server)
    if is_reloaded:
        await journey.page.close()
        await journey.open()
    await journey.print_on(60)

    await journey.assert_all_is_there()
