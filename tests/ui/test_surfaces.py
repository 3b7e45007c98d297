"""Nodes are where JupyterLab and Notebook 7 have such things: menus, Running panel, notifications, status bar."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.error import HTTPError

import pytest
from main_journey import HAS_COMMAND, KERNEL_IS_IDLE, RUN, SPEC, delete_node, expect_focus_in, in_notebook, ready
from playwright.sync_api import BrowserContext, Page, Request, expect

if TYPE_CHECKING:
    from running_demo import Demo

    from conftest import Picture

pytestmark = [pytest.mark.system("chromium")]

HIDE = """() => {
  Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => 'hidden' });
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });
  document.dispatchEvent(new Event('visibilitychange'));
}"""
# Notes when the layout is restored; JupyterLab shows its application to the page before that.
NOTE_RESTORED = """() => Object.defineProperty(window, 'jupyterapp', {
  set: app => {
    Object.defineProperty(window, 'jupyterapp', { value: app });
    void app.restored.then(() => { window.restoredAt = performance.now(); });
  },
  configurable: true
})"""
REQUESTED = """() => performance.getEntriesByType('resource')
  .filter(({ name }) => name.includes('/jupyter-tpu/'))
  .map(({ name, startTime, decodedBodySize }) =>
    [new URL(name).pathname, startTime < window.restoredAt, decodedBodySize])"""
KERNEL_NAME = "() => window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.name"

# JupyterLab draws its terminals, so their text is not in the page.
ON_SCREEN = """text => {
  const lines = window.jupyterapp?.shell.currentWidget?.content?._term?.buffer.active;
  return lines !== undefined &&
    Array.from({ length: lines.length }, (_, at) => lines.getLine(at).translateToString()).join('\\n').includes(text);
}"""


@pytest.fixture(autouse=True)
def _no_nodes(demo: Demo) -> Iterator[None]:
    yield
    deadline = time.monotonic() + 180
    while (nodes := demo.ask("jupyter-tpu/v1/nodes")["nodes"]) and time.monotonic() < deadline:
        for node in nodes:
            with suppress(HTTPError):  # it is being deleted
                demo.ask(f"jupyter-tpu/v1/nodes/{node['zone']}/{node['node_id']}", "DELETE")
        time.sleep(0.5)


@pytest.mark.nightly
def test_nodes_are_in_menus_the_running_panel_and_the_status_bar(demo: Demo, lab: Page, picture: Picture) -> None:
    status = lab.locator(".jp-tpu-MoneyStatus button")
    expect(status).to_have_text("TPU: nothing running")
    demo.create_node()
    expect(ready(lab).get_by_role("button", name="Open new notebook")).to_be_visible()

    # the status item's pop-up takes the focus, Escape gives it back
    status.click()
    popup = lab.get_by_role("dialog", name="TPU status")
    expect(popup).to_contain_text("connected")
    lab.wait_for_function("() => document.activeElement.textContent === 'Open TPU panel'")
    picture(lab, "status-popup")
    lab.keyboard.press("Escape")
    expect(popup).to_have_count(0)
    expect(status).to_be_focused()

    # the tab of a notebook offers the node; the keyboard is enough to choose it
    lab.evaluate(RUN, ["notebook:create-new", {"kernelName": "python3"}])
    lab.wait_for_function(KERNEL_IS_IDLE)
    lab.locator("#jp-main-dock-panel .lm-TabBar-tab", has_text="Untitled").click(button="right")
    lab.locator(".lm-Menu-item", has_text="Run on TPU…").click()
    expect(lab.get_by_role("radio", name="my-node")).to_be_checked()
    lab.wait_for_function("() => document.activeElement.textContent === 'Continue'")
    picture(lab, "run-on-tpu")
    lab.keyboard.press("Enter")
    lab.wait_for_function(f"() => ({KERNEL_NAME})()?.startsWith('tpu-my-node')")

    # only a notebook's tab has that entry
    lab.locator("#jp-main-dock-panel .lm-TabBar-tab", has_text="Launcher").click(button="right")
    expect(lab.locator(".lm-Menu-item", has_text="Close Tab").first).to_be_visible()
    expect(lab.locator(".lm-Menu-item", has_text="Run on TPU…")).to_have_count(0)
    expect_focus_in(lab.locator(".lm-Menu"))
    lab.keyboard.press("Escape")
    expect(lab.locator(".lm-Menu")).to_have_count(0)

    lab.locator('.jp-SideBar [data-id="jp-running-sessions"]').click()
    node = lab.locator(".jp-tpu-RunningNode")
    expect(node).to_contain_text("my-node$9.60/h")
    node.hover()
    picture(lab, "running-panel")
    node.locator(".jp-RunningSessions-itemShutdown").click()
    dialog = lab.locator(".jp-Dialog")
    expect(dialog).to_contain_text("Stop my-node")
    dialog.get_by_text("per hour").first.click()  # the dialog keeps the keyboard after a click on its text, too
    expect_focus_in(dialog)
    lab.keyboard.press("Escape")
    expect(dialog).to_have_count(0)

    lab.keyboard.press("Alt+Shift+KeyP")
    expect(lab.locator("#jupyter-tpu-panel")).to_be_visible()
    delete_node(lab)
    expect(status).to_contain_text("nothing running")


def test_the_name_of_a_kernel_stays_in_the_toolbar_of_a_notebook_if_it_is_long(demo: Demo, lab: Page) -> None:
    kernel = demo.create_node({**SPEC, "node_id": 6 * "long-name-" + "1"})
    lab.wait_for_function("name => name in window.jupyterapp.serviceManager.kernelspecs.specs.kernelspecs", arg=kernel)
    lab.evaluate(RUN, ["notebook:create-new", {"kernelName": kernel}])
    lab.wait_for_function(KERNEL_IS_IDLE)
    name = lab.locator(".jp-NotebookPanel-toolbar .jp-Toolbar-kernelName")
    expect(name).to_contain_text("long-name")
    assert name.evaluate("name => name.offsetWidth") < 300, "JupyterLab will move it out of the toolbar"
    lab.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")


@pytest.mark.nightly
def test_a_terminal_on_a_node_is_shown_again_when_the_page_is_loaded_again(
    demo: Demo, lab: Page, picture: Picture
) -> None:
    demo.create_node()
    ready(lab)
    lab.evaluate(RUN, ["tpu:open-panel", {}])
    card = lab.locator(".jp-tpu-Node")
    card.get_by_role("button", name="More actions on my-node").click()
    lab.locator(".lm-Menu-item", has_text="New Terminal on This Node").click()
    lab.wait_for_function(ON_SCREEN, arg="~")  # the prompt
    lab.keyboard.type("X=kept; echo $((6*7)) in $HOME\n")  # it has the focus
    lab.wait_for_function(ON_SCREEN, arg="42 in ")
    expect(lab.locator("#jp-main-dock-panel .lm-TabBar-tab", has_text="my-node")).to_be_visible()
    picture(lab, "terminal")

    lab.reload()
    lab.wait_for_function(ON_SCREEN, arg="42 in ")
    lab.keyboard.type("echo $X-it; sleep 1000\n")
    lab.wait_for_function(ON_SCREEN, arg="kept-it")

    # an open card lists it; to shut it down closes its tab
    card.locator(".jp-tpu-Node-heading").click()
    card.get_by_role("button", name="Shut down: Terminal: sleep 1000").click()
    lab.get_by_role("button", name="Shut down", exact=True).click()
    expect(lab.locator(".jp-Terminal")).to_have_count(0)
    expect(card.get_by_text("since")).to_have_count(0)


@pytest.mark.nightly
def test_the_start_of_jupyterlab_waits_neither_for_the_cloud_nor_for_the_panel(
    demo: Demo, browser: BrowserContext
) -> None:
    page = browser.new_page()
    page.add_init_script(f"({NOTE_RESTORED})()")
    page.goto(f"{demo.url}&reset")
    expect(page.locator(".jp-tpu-MoneyStatus button")).to_have_text("TPU: nothing running")
    page.wait_for_function(f"() => ({REQUESTED})().some(([path]) => path.endsWith('/nodes'))")
    early = {path: size for path, was_early, size in page.evaluate(REQUESTED) if was_early}
    assert [path for path in early if "/v1/" in path] == []
    # its entry, its plugins and its style: a twentieth of what JupyterLab itself loads
    assert len(early) == 3, early
    assert 0 < sum(early.values()) < 330_000, early
    page.close()


@pytest.mark.nightly
def test_a_hidden_page_requests_nothing(demo: Demo, lab: Page) -> None:
    asked: list[str] = []
    under_way: set[Request] = set()

    def note(request: Request) -> None:
        under_way.add(request)
        if "/jupyter-tpu/" in request.url:
            asked.append(request.url)

    def forget(request: Request) -> None:
        under_way.discard(request)

    lab.on("request", note)
    lab.on("requestfinished", forget)
    lab.on("requestfailed", forget)
    lab.locator('.jp-SideBar [data-id="jupyter-tpu-panel"]').click()
    expect(lab.locator("#jupyter-tpu-panel")).to_contain_text("Emulated cloud")
    lab.evaluate(HIDE)
    lab.wait_for_timeout(1_000)
    while under_way:  # what was asked before may end, and be followed by what belongs to it
        lab.wait_for_timeout(1_000)
    asked.clear()
    demo.create_node()  # the server emits events all the while
    lab.wait_for_timeout(16_000)  # longer than the interval of the visible panel
    assert asked == []


@pytest.mark.nightly
def test_the_main_journey_passes_in_notebook(demo: Demo, browser: BrowserContext, picture: Picture) -> None:
    page = browser.new_page()
    in_notebook(page, browser, f"{demo.base_url}/tree?token={demo.token}")
    picture(page, "notebook-tree")
    page.close()


@pytest.mark.nightly
def test_the_menu_new_of_notebook_fits_a_narrow_window(demo: Demo, browser: BrowserContext, picture: Picture) -> None:
    demo.create_node({**SPEC, "node_id": "a-node-with-a-name-as-long-as-the-api-permits-" + "x" * 16})
    page = browser.new_page()
    page.set_viewport_size({"width": 360, "height": 700})
    page.goto(f"{demo.base_url}/tree?token={demo.token}")
    page.wait_for_function(HAS_COMMAND)
    page.locator(".jp-DropdownMenu").get_by_text("New").click()
    menu = page.locator(".lm-Menu", has_text="TPU Node…")
    expect(menu).to_contain_text("xxx")
    picture(page, "notebook-new-menu-narrow")
    left, right = menu.evaluate("menu => [menu.getBoundingClientRect().left, menu.getBoundingClientRect().right]")
    assert 0 <= left < right <= 360
    cut = "menu => [...menu.querySelectorAll('.lm-Menu-itemLabel')].filter(one => one.scrollWidth > one.clientWidth)"
    assert menu.evaluate(f"menu => ({cut})(menu).length") == 0
    page.close()
