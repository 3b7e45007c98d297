"""The demo as a new user meets it: one command, one browser."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from open_notebooks import IS_OPEN, Notebook, write
from path_to_server import PathToServer
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

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


@dataclass
class Demo:
    """A running `jupyter tpu demo`: `url` opens its JupyterLab, `ledger_url` its money ledger."""

    folder: Path
    process: subprocess.Popen[str]
    url: str
    ledger_url: str

    @property
    def base_url(self) -> str:
        return self.url.split("/lab")[0]

    @property
    def token(self) -> str:
        return self.url.split("token=")[1]

    @property
    def notebooks(self) -> Path:
        """What JupyterLab shows."""
        return self.folder / "notebooks"

    def ask(self, route: str, method: str = "GET") -> Any:
        """What the Jupyter server answers to a request under its base address."""
        request = urllib.request.Request(
            f"{self.base_url}/{route}", method=method, headers={"Authorization": f"token {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or "null")

    def ledger(self) -> Any:
        with urllib.request.urlopen(self.ledger_url, timeout=30) as answer:
            return json.load(answer)


def start_demo(folder: Path, *options: str) -> Demo:
    process = subprocess.Popen(
        [
            *[sys.executable, "-m", "jupyter_tpu.cli", "demo", "--no-browser", "--dir", str(folder), *options],
            *["--", "--expose-app-in-browser", "--JupyterNotebookApp.expose_app_in_browser=True"],
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    printed = ""
    assert process.stdout is not None
    for line in process.stdout:
        printed += line
        lab = re.search(r"http://127\.0\.0\.1:\d+/lab\S*token=\w+", printed)
        ledger = re.search(r"http://127\.0\.0\.1:\d+/emulator/v1/ledger", printed)
        if lab and ledger:
            threading.Thread(target=process.stdout.read, daemon=True).start()  # nothing may block on a full pipe
            return Demo(folder=folder, process=process, url=lab[0], ledger_url=ledger[0])
    raise AssertionError("The demo ended without saying where it is:\n" + printed)


def stop_demo(demo: Demo) -> None:
    demo.process.send_signal(signal.SIGINT)
    demo.process.wait(timeout=60)
    if demo.process.stdout is not None:
        demo.process.stdout.close()


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
    expect.set_options(timeout=60_000)  # what is waited for comes on a loaded machine, too
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(tmp_path_factory.mktemp("chromium")),
            executable_path=chromium,
            headless=True,
            args=FLAGS,
            viewport={"width": 1280, "height": 800},
        )
        yield context
        context.close()


Picture = Callable[[Page, str], None]


@pytest.fixture(scope="session")
def picture() -> Picture:
    """Keeps screenshots for whoever looks at the run; none of them is compared."""
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
    page.set_default_timeout(60_000)
    page.goto(f"{url}&reset")
    page.wait_for_function(IS_OPEN)
    page.wait_for_selector("#jupyterlab-splash", state="detached")


@pytest.fixture
def lab(open_lab: OpenLab) -> Page:
    return open_lab()


SPEC = {
    "node_id": "my-node",
    "zone": "us-central1-a",
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
    "spot": False,
}


@pytest.fixture(scope="module")
def kernel_name(demo: Demo, browser: BrowserContext) -> str:
    """The kernelspec of a READY node."""
    page = browser.new_page()
    _visit(page, demo.url)
    page.evaluate("spec => { void window.jupyterapp.commands.execute('tpu:create-node', spec); }", SPEC)
    page.evaluate("() => { void window.jupyterapp.commands.execute('tpu:open-panel'); }")
    expect(page.get_by_role("button", name="Open notebook on my-node")).to_be_enabled(timeout=90_000)
    page.close()
    return str(demo.ask("jupyter-tpu/v1/nodes")["nodes"][0]["kernelspec"])


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
