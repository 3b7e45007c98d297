"""The journey of a new user in the demo, in a real browser."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from cards import choose
from playwright.sync_api import Locator, Page, expect

if TYPE_CHECKING:
    from conftest import Demo, Picture

pytestmark = [pytest.mark.system("chromium"), pytest.mark.timeout(400)]

READY_WITHIN_MS = 90_000
TRAINED_WITHIN_MS = 60_000

NOTEBOOK_IN_FRONT = ".jp-NotebookPanel:not(.lm-mod-hidden)"
KERNEL_IS_IDLE = "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"


def get_json(demo: Demo, route: str) -> Any:
    request = urllib.request.Request(
        f"{demo.base_url}/jupyter-tpu/v1/{route}", headers={"Authorization": f"token {demo.token}"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def open_panel(page: Page) -> Locator:
    page.locator('.jp-SideBar [data-id="jupyter-tpu-panel"]').click()
    panel = page.locator("#jupyter-tpu-panel")
    expect(panel).to_contain_text("Emulated cloud")
    return panel


def create_node(panel: Locator, name: str, picture: Picture) -> Locator:
    panel.get_by_role("button", name="Create a node").first.click()
    form = panel.get_by_role("form", name="Create a node")
    form.get_by_label("Name").fill(name)
    form.get_by_label("Zone").select_option("us-central1-a")
    form.get_by_label("Accelerator type").select_option("v5litepod-8")
    expect(form).to_contain_text("$9.60 per hour")
    picture(panel.page, "create-form")
    form.get_by_role("button", name="Create", exact=True).click()
    node = panel.get_by_role("listitem").filter(has_text=name)
    expect(node).to_contain_text("Ready", timeout=READY_WITHIN_MS)
    expect(panel.page.locator(".jp-LauncherCard").filter(has_text=name).first).to_be_visible()
    return node


def open_digits_on(page: Page, node_id: str) -> Locator:
    """By a double click in the file browser; the kernel is chosen in JupyterLab's own dialog."""
    page.locator('.jp-SideBar [data-id="filebrowser"]').click()
    page.locator(".jp-DirListing-item", has_text="digits.ipynb").dblclick()
    dialog = page.locator(".jp-Dialog")
    dialog.locator("select").select_option(label=f"Python 3 · v5litepod-8 · {node_id}")
    dialog.get_by_role("button", name="Select").click()
    return notebook_with_kernel(page)


def notebook_with_kernel(page: Page) -> Locator:
    """JupyterLab runs nothing, without a word, while a notebook has no kernel yet."""
    page.wait_for_function(KERNEL_IS_IDLE)
    return page.locator(NOTEBOOK_IN_FRONT)


def run_all(page: Page) -> None:
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()


def delete_node(panel: Locator, node_id: str, picture: Picture) -> None:
    choose(panel, node_id, "Delete…")
    dialog = panel.page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("$9.60 per hour")
    picture(panel.page, "delete-question")
    dialog.get_by_role("button", name="Delete").click()
    expect(panel.get_by_role("listitem").filter(has_text=node_id)).to_have_count(0, timeout=READY_WITHIN_MS)


def use_dark_theme(page: Page) -> None:
    page.evaluate("() => window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    expect(page.locator("body")).to_have_attribute("data-jp-theme-light", "false")


def open_notebook_on(panel: Locator, node_id: str, file: str) -> None:
    """By the node's own button, as a new `file`; one cell runs on it."""
    page = panel.page
    panel.get_by_role("button", name=f"Open notebook on {node_id}").click()
    expect(page.locator(".jp-mod-current .lm-TabBar-tabLabel")).to_have_text(file)
    notebook = notebook_with_kernel(page)
    code = notebook.locator(".jp-CodeCell .cm-content").first
    code.click()
    page.keyboard.type("%env TPU_ACCELERATOR_TYPE")
    expect(code).to_have_text("%env TPU_ACCELERATOR_TYPE")
    page.keyboard.press("Shift+Enter")
    expect(notebook.locator(".jp-OutputArea-output").first).to_contain_text("v5litepod-8")


def stop_and_start(panel: Locator, node_id: str) -> None:
    node = panel.get_by_role("listitem").filter(has_text=node_id)
    choose(panel, node_id, "Stop…")
    panel.page.locator(".jp-Dialog").get_by_role("button", name="Stop").click()
    expect(node).to_contain_text("Stopped", timeout=READY_WITHIN_MS)
    node.get_by_role("button", name=f"Start {node_id}").click()
    expect(node).to_contain_text("Ready", timeout=READY_WITHIN_MS)
    expect(node.get_by_role("button", name=f"Open notebook on {node_id}")).to_be_enabled(timeout=READY_WITHIN_MS)


def test_a_new_user_trains_on_a_node_and_deletes_it(demo: Demo, lab: Page, picture: Picture) -> None:
    panel = open_panel(lab)
    picture(lab, "empty-panel")
    create_node(panel, "my-node", picture)
    picture(lab, "node-ready")

    notebook = open_digits_on(lab, "my-node")
    run_all(lab)
    expect(notebook.get_by_text(re.compile(r"test accuracy.*9[5-9]\.\d", re.I)).last).to_be_visible(
        timeout=TRAINED_WITHIN_MS
    )
    expect(notebook.locator(".jp-OutputArea img")).to_have_count(2)  # the digits and the loss curve
    expect(notebook.locator(".jp-OutputArea").filter(has_text="emulated").first).to_be_visible()
    notebook.locator(".jp-OutputArea img").last.scroll_into_view_if_needed()
    open_panel(lab)
    picture(lab, "digits-light")
    use_dark_theme(lab)
    picture(lab, "digits-dark")

    open_notebook_on(panel, "my-node", "Untitled.ipynb")
    stop_and_start(panel, "my-node")
    open_notebook_on(panel, "my-node", "Untitled1.ipynb")
    delete_node(panel, "my-node", picture)
    picture(lab, "deleted-dark")
    assert get_json(demo, "nodes")["nodes"] == []
    assert [node for node in demo.ledger()["nodes"] if node["billing"]] == []
