"""The demo as a new user meets it: one command, one browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from open_notebooks import IS_OPEN, Notebook, write
from path_to_server import PathToServer
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright
from running_demo import Demo, start_demo, stop_demo

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCREENSHOTS = Path(__file__).parent / "screenshots"
TEST_TIMEOUT_S = 900  # a test waits for many things one after the other, and each may come late
# The one limit of all waits: what is waited for comes on a machine that is loaded or slow, too.
PATIENCE_MS = 180_000


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    running = start_demo(tmp_path_factory.mktemp("demo"))
    yield running
    stop_demo(running)


@pytest.fixture
def path_to_server(demo: Demo) -> Iterator[PathToServer]:
    path = PathToServer(int(demo.base_url.rpartition(":")[2]))
    yield path
    path.close()


@pytest.fixture(scope="module")
def browser(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(tmp_path_factory.mktemp("chromium")),
            executable_path=chromium,
            headless=True,
            args=FLAGS,
            viewport={"width": 1280, "height": 800},
        )
        context.set_default_timeout(PATIENCE_MS)
        yield context
        context.close()


Picture = Callable[[Page, str], None]


@pytest.fixture(scope="session")
def picture() -> Picture:
    """Keeps screenshots for people who inspect the run; none of them is compared."""
    SCREENSHOTS.mkdir(exist_ok=True)

    def keep(page: Page, name: str) -> None:
        page.screenshot(path=SCREENSHOTS / f"{name}.png")

    return keep


OpenLab = Callable[..., Page]


@pytest.fixture
def open_lab(demo: Demo, browser: BrowserContext, picture: Picture) -> Iterator[OpenLab]:
    """Opens JupyterLab in a new tab, as on a first visit: nothing is open yet. `port` may be that of a proxy."""
    pages: list[Page] = []

    def open_one(port: int | None = None) -> Page:
        page = browser.new_page()
        pages.append(page)
        _visit(page, demo.url if port is None else re.sub(r":\d+/", f":{port}/", demo.url))
        return page

    yield open_one
    for page in pages:
        if not page.is_closed():
            picture(page, "at-the-end")
            page.close()


def _visit(page: Page, url: str) -> None:
    page.goto(f"{url}&reset")
    page.wait_for_function(IS_OPEN)
    page.wait_for_selector("#jupyterlab-splash", state="detached")


@pytest.fixture
def lab(open_lab: OpenLab) -> Page:
    return open_lab()


@pytest.fixture(scope="module")
def kernel_name(demo: Demo) -> str:
    """The kernelspec of a READY node."""
    return demo.create_node()


@pytest.fixture
def write_notebook(demo: Demo, kernel_name: str, tmp_path: Path) -> Iterator[Callable[..., Notebook]]:
    """Writes notebooks for the node, of the sources of their cells; their kernels end with the test."""
    written: list[Notebook] = []

    def write_one(path: str, *sources: str, minor: int = 5) -> Notebook:
        written.append(Notebook(demo, path, tmp_path))
        write(written[-1], kernel_name, sources, minor=minor)
        return written[-1]

    yield write_one
    for notebook in written:
        notebook.end()
