"""The widgets in VS Code: its widget manager, connected to a Jupyter server as VS Code connects to one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from open_notebooks import HELPERS, Notebook
from playwright.sync_api import BrowserContext, Locator, Page, expect
from vscode_page import VsCode, serve_page
from widget_pages import GROW, GROWN, SHOW, TAKE, all_violations, first_chip, widget

if TYPE_CHECKING:
    from path_to_server import PathToServer

    from conftest import Demo, Picture

pytestmark = [pytest.mark.system("chromium")]

OpenWindow = Callable[..., VsCode]


@pytest.fixture(scope="module")
def page_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve_page(tmp_path_factory.mktemp("vscode")) as url:
        yield url


@pytest.fixture
def open_window(demo: Demo, browser: BrowserContext, page_url: str) -> Iterator[OpenWindow]:
    """Opens a window; `base_url` may be that of a proxy."""
    pages: list[Page] = []

    def open_one(base_url: str = demo.base_url) -> VsCode:
        pages.append(browser.new_page())
        pages[-1].goto(page_url)
        pages[-1].wait_for_selector("body[data-ready]", state="attached")
        return VsCode(pages[-1], base_url, demo.token)

    yield open_one
    for page in pages:
        page.close()


@pytest.fixture
def notebook(write_notebook: Callable[..., Notebook], request: pytest.FixtureRequest) -> Notebook:
    return write_notebook(f"{request.node.name}.ipynb")


def open_notebook(window: VsCode, notebook: Notebook, kernel_name: str) -> None:
    window.open(notebook.path, kernel_name)
    window.find_scripts()
    window.run(f"GATES = {str(notebook.gates)!r}\n{HELPERS}")


def keep_for_an_hour(page: Page) -> Locator:
    widget(page, "Idle timer").get_by_role("button", name="Keep running 1 h").click()
    return widget(page, "Idle timer").get_by_role("status")


def test_kernels_of_nodes_are_offered_and_what_tpu_says_can_be_read(
    open_window: OpenWindow, notebook: Notebook, kernel_name: str
) -> None:
    window = open_window()
    window.open(notebook.path, kernel_name)
    assert kernel_name in window.page.evaluate("() => window.notebook.kernelNames()")

    expect(window.run("%tpu").locator("strong").first).to_contain_text("v5litepod-8")
    expect(window.run("%tpu_init jax").locator("strong").first).to_have_text("JAX is ready on 8 devices of v5litepod-8")


@pytest.mark.nightly
def test_numbers_are_live_while_a_cell_runs(
    open_window: OpenWindow, notebook: Notebook, kernel_name: str, picture: Picture
) -> None:
    window = open_window()
    open_notebook(window, notebook, kernel_name)
    for code in (TAKE, SHOW, "TpuMonitor()", GROW):
        window.run(code)
    notebook.has_reached("a")
    expect(first_chip(window.page)).to_contain_text("of 16.00 GiB")
    expect(first_chip(window.page)).not_to_contain_text(GROWN)

    notebook.pass_gate("a")

    expect(first_chip(window.page)).to_contain_text(GROWN)
    picture(window.page, "vscode-live")
    notebook.pass_gate("b")


@pytest.mark.nightly
def test_buttons_are_heard(open_window: OpenWindow, notebook: Notebook, kernel_name: str) -> None:
    window = open_window()
    open_notebook(window, notebook, kernel_name)
    window.run(SHOW)
    window.run("IdleTimer()")

    expect(keep_for_an_hour(window.page)).to_contain_text(["The node keeps running for"])
    expect(widget(window.page, "Idle timer").get_by_role("button", name="Cancel")).to_be_visible()


@pytest.mark.nightly
def test_the_widgets_stay_right_when_the_server_was_out_of_reach(
    open_window: OpenWindow, notebook: Notebook, kernel_name: str, path_to_server: PathToServer
) -> None:
    window = open_window(f"http://127.0.0.1:{path_to_server.port}")
    open_notebook(window, notebook, kernel_name)
    for code in (TAKE, SHOW, "TpuMonitor()", "IdleTimer()", GROW):
        window.run(code)
    notebook.has_reached("a")
    expect(first_chip(window.page)).to_contain_text("of 16.00 GiB")

    path_to_server.fault("refuse")
    path_to_server.fault("reset")
    window.page.wait_for_function("() => window.notebook.kernel.connectionStatus !== 'connected'")
    notebook.pass_gate("a")
    notebook.has_reached("b")
    path_to_server.fault("clear")
    window.page.evaluate("() => { void window.notebook.kernel.reconnect(); }")  # it does so by itself, but not at once

    expect(first_chip(window.page)).to_contain_text(GROWN)
    notebook.pass_gate("b")
    expect(keep_for_an_hour(window.page)).to_contain_text(["The node keeps running for"])


@pytest.mark.nightly
def test_another_window_shows_a_picture_and_is_live_when_the_cell_runs_again(
    open_window: OpenWindow, notebook: Notebook, kernel_name: str
) -> None:
    window = open_window()
    open_notebook(window, notebook, kernel_name)
    for code in (TAKE, SHOW):
        window.run(code)
    shown = window.run("TpuMonitor()")
    expect(first_chip(window.page)).to_contain_text("of 16.00 GiB")
    outputs = window.outputs(shown)
    window.page.close()

    again = open_window()
    open_notebook(again, notebook, kernel_name)
    picture_of_before = again.show("TpuMonitor()", outputs)
    expect(picture_of_before).to_contain_text(re.compile("TPU monitor.*as of.*a snapshot of the widget", re.DOTALL))
    again.run("TpuMonitor()")

    expect(first_chip(again.page)).to_contain_text("of 16.00 GiB")


@pytest.mark.nightly
def test_a_widget_whose_front_end_is_nowhere_says_so_beside_its_picture(
    open_window: OpenWindow, notebook: Notebook, kernel_name: str
) -> None:
    window = open_window()
    window.open(notebook.path, kernel_name)
    window.run(SHOW)

    shown = window.run("TpuMonitor()")

    shown.get_by_text("Click to show javascript error.").click()
    expect(shown).to_contain_text("Failed to load model class 'AnyModel' from module 'anywidget'")
    assert "This is a snapshot of the widget" in window.outputs(shown)[0]["text/html"]


@pytest.mark.nightly
def test_all_widgets_can_be_read_in_both_themes(
    open_window: OpenWindow, notebook: Notebook, kernel_name: str, picture: Picture
) -> None:
    window = open_window()
    open_notebook(window, notebook, kernel_name)
    for code in (TAKE, SHOW, "%tpu", "TpuMonitor()", "IdleTimer()", "QuotaAndCredit()"):
        window.run(code)
    expect(first_chip(window.page)).to_contain_text("of 16.00 GiB")
    expect(widget(window.page, "Quota and credit")).to_contain_text("$9.60 per hour")
    for theme in ("light", "dark"):
        window.use_theme(theme)
        for width in (1100, 480):
            window.page.set_viewport_size({"width": width, "height": 1500})
            assert all_violations(window.page) == {}
            picture(window.page, f"vscode-{theme}-{width}")
