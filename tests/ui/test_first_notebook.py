"""The journey of a new user in the demo, in a real browser."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from cards import choose
from main_journey import run_on_node
from playwright.sync_api import Locator, Page, expect

if TYPE_CHECKING:
    from conftest import Demo, Picture

pytestmark = [pytest.mark.system("chromium")]


NOTEBOOK_IN_FRONT = ".jp-NotebookPanel:not(.lm-mod-hidden)"


def get_json(demo: Demo, route: str) -> Any:
    request = urllib.request.Request(
        f"{demo.base_url}/jupyter-tpu/v1/{route}", headers={"Authorization": f"token {demo.token}"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def open_panel(page: Page) -> Locator:
    page.locator('.jp-SideBar [data-id="jupyter-tpu-panel"]').click()
    panel = page.locator("#jupyter-tpu-panel")
    expect(panel).to_contain_text("Emulated cloud")
    return panel


def watch(page: Page) -> None:
    """Count the clicks of the user, and the dialogs that were shown."""
    page.evaluate(
        """() => {
          window.clicks = 0;
          window.dialogs = 0;
          window.addEventListener('pointerdown', event => { window.clicks += Number(event.isTrusted); }, true);
          new MutationObserver(changes => changes.forEach(({ addedNodes }) => addedNodes.forEach(
            ({ classList }) => { window.dialogs += Number(classList?.contains('jp-Dialog') ?? false); }
          ))).observe(document.body, { childList: true });
        }"""
    )


def create_for_the_example(page: Page, panel: Locator, picture: Picture) -> Locator:
    """From the launcher; all that the form suggests is taken as it is."""
    page.locator(".jp-LauncherCard", has_text="Example: digits").click()
    form = panel.get_by_role("form", name="Create a node")
    cost = form.get_by_role("status", name="Price and quota for this choice")
    expect(cost).to_contain_text("$9.60 per hour on-demand · auto-stop after 1 h idle")
    expect(cost).to_contain_text("at most $19.20 if you forget the node")
    create = form.get_by_role("button", name="Create", exact=True)
    expect(create).to_be_in_viewport(ratio=1)
    expect(form.get_by_text("More options", exact=True)).to_be_in_viewport(ratio=1)
    picture(page, "create-form")
    create.click()
    page.wait_for_selector(NOTEBOOK_IN_FRONT)
    return page.locator(NOTEBOOK_IN_FRONT)


def delete_node(panel: Locator, node_id: str, picture: Picture) -> None:
    choose(panel, node_id, "Delete…")
    dialog = panel.page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("$9.60 per hour")
    picture(panel.page, "delete-question")
    dialog.get_by_role("button", name="Delete").click()
    expect(panel.get_by_role("listitem").filter(has_text=node_id)).to_have_count(0)


def use_dark_theme(page: Page) -> None:
    page.evaluate("() => window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    expect(page.locator("body")).to_have_attribute("data-jp-theme-light", "false")


def open_notebook_on(panel: Locator, node_id: str, file: str) -> None:
    """By the node's own button, as a new `file`; one cell runs on it."""
    page = panel.page
    panel.get_by_role("button", name=f"Open new notebook on {node_id}").click()
    expect(page.locator(".jp-mod-current .lm-TabBar-tabLabel")).to_have_text(file)
    run_on_node(page)


def stop_and_start(panel: Locator, node_id: str) -> None:
    node = panel.get_by_role("listitem").filter(has_text=node_id)
    choose(panel, node_id, "Stop…")
    panel.page.locator(".jp-Dialog").get_by_role("button", name="Stop").click()
    expect(node).to_contain_text("Stopped")
    node.get_by_role("button", name=f"Start {node_id}").click()
    expect(node).to_contain_text("Ready")
    expect(node.get_by_role("button", name=f"Open new notebook on {node_id}")).to_be_enabled()


def test_a_new_user_trains_on_a_node_and_deletes_it_with_six_clicks_at_most(
    demo: Demo, lab: Page, picture: Picture
) -> None:
    panel = lab.locator("#jupyter-tpu-panel")
    watch(lab)

    notebook = create_for_the_example(lab, panel, picture)

    expect(notebook.get_by_text(re.compile(r"test accuracy.*9[5-9]\.\d", re.I)).last).to_be_visible()
    expect(notebook.locator(".jp-OutputArea img")).to_have_count(2)  # the digits and the loss curve
    expect(notebook.locator(".jp-OutputArea").filter(has_text="emulated").first).to_be_visible()
    notebook.locator(".jp-OutputArea img").last.scroll_into_view_if_needed()
    picture(lab, "digits-light")
    delete_node(panel, "node-1", picture)
    assert lab.evaluate("() => window.clicks") <= 6
    assert lab.evaluate("() => window.dialogs") == 1  # before the deletion; none asked for a kernel
    assert get_json(demo, "nodes")["nodes"] == []
    assert [node for node in demo.ledger()["nodes"] if node["billing"]] == []


@pytest.mark.nightly
def test_a_node_runs_notebooks_before_and_after_it_was_stopped(
    demo: Demo, kernel_name: str, lab: Page, picture: Picture
) -> None:
    panel = open_panel(lab)
    card = lab.locator(".jp-LauncherCard", has_text="my-node")
    expect(card).to_have_count(3)  # as a node and as a kernel …
    expect(card.locator("visible=true")).to_have_count(2)  # … but not as a console
    use_dark_theme(lab)
    picture(lab, "node-dark")

    open_notebook_on(panel, "my-node", "Untitled.ipynb")
    stop_and_start(panel, "my-node")
    open_notebook_on(panel, "my-node", "Untitled1.ipynb")
    delete_node(panel, "my-node", picture)
    picture(lab, "deleted-dark")
    assert get_json(demo, "nodes")["nodes"] == []
