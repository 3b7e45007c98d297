"""The load of a node in the panel: seen chip by chip, named by the notebook that makes it, and freed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cards import open_card
from open_notebooks import Notebook, run_all
from playwright.sync_api import Locator, Page, expect

if TYPE_CHECKING:
    from conftest import Picture

pytestmark = [pytest.mark.system("chromium")]

AXE = Path(__file__).parents[3] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
TAKE = "import emulated_tpu\ntaken = emulated_tpu.take()\nprint('taken')"
SECTIONS = ("Spend", "Grants and credits", "Quota", "Search and queue", "Billable resources and quota", "Audit log")


@pytest.fixture
def panel(lab: Page) -> Locator:
    lab.locator('.jp-SideBar [data-id="jupyter-tpu-panel"]').click()
    return lab.locator("#jupyter-tpu-panel")


def section(panel: Locator, name: str) -> Locator:
    """A section of the panel, opened."""
    found = panel.get_by_role("region", name=name, exact=True)
    head = found.get_by_role("button").first
    if head.get_attribute("aria-expanded") == "false":
        head.click()
    return found


def violations(panel: Locator) -> Any:
    """What axe finds in the panel."""
    panel.page.evaluate(AXE.read_text())
    return panel.page.evaluate(
        "selector => axe.run(selector).then(({violations}) => violations.map(({id, nodes}) => [id, nodes[0].html]))",
        "#jupyter-tpu-panel",
    )


def use_theme(page: Page, theme: str) -> None:
    page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
    expect(page.locator("body")).to_have_attribute("data-jp-theme-name", theme)
    page.wait_for_selector("#jupyterlab-splash", state="detached")


@pytest.mark.nightly
def test_the_notebook_that_holds_the_chips_is_named_and_gives_them_up(
    write_notebook: Callable[..., Notebook], panel: Locator, picture: Picture
) -> None:
    page = panel.page
    notebook = write_notebook("train.ipynb", TAKE, "print('step 1')\npass_gate('a')")
    shown = notebook.open_in(page)
    run_all(page)
    notebook.has_reached("a")

    load = section(open_card(panel, "my-node"), "Load of my-node")

    holders = load.get_by_role("list", name="TPU processes")
    expect(holders).to_contain_text("train.ipynb")
    expect(load.get_by_role("meter", name="HBM of chip")).to_have_count(8)
    expect(load.get_by_role("meter", name="Duty of chip 7")).to_be_attached()
    expect(load.get_by_role("img", name="Load of my-node in the last 5 min").locator("canvas")).to_be_attached()
    picture(page, "load-held")

    load.get_by_role("button", name="Release the TPU used by train.ipynb").click()
    dialog = page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("Outputs are kept in your notebooks")
    picture(page, "load-free")
    dialog.get_by_role("button", name="Release").click()

    expect(load).to_contain_text("Idle: no process is using the chips.")
    expect(holders).to_have_count(0)
    expect(shown.locator(".jp-OutputArea-output").filter(has_text="step 1")).to_be_attached()
    expect(shown.locator(".jp-OutputArea-output").filter(has_text="taken")).to_be_attached()
    picture(page, "load-freed")


@pytest.mark.nightly
def test_the_panel_with_all_its_sections_is_for_everybody_in_both_themes(
    write_notebook: Callable[..., Notebook], panel: Locator, picture: Picture
) -> None:
    page = panel.page
    notebook = write_notebook("held.ipynb", TAKE, "pass_gate('a')")
    notebook.open_in(page)
    run_all(page)
    notebook.has_reached("a")
    load = section(open_card(panel, "my-node"), "Load of my-node")
    expect(load.get_by_role("meter", name="HBM of chip")).to_have_count(8)
    for name in SECTIONS:
        section(panel, name)
    expect(section(panel, "Quota").get_by_role("list", name="Quota limits")).to_contain_text("my-node")
    page.set_viewport_size({"width": 700, "height": 1800})
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        use_theme(page, theme)
        picture(page, f"load-narrow-{theme.rpartition(' ')[2].lower()}")
        assert violations(panel) == []
        sizes = panel.evaluate("node => [node.scrollWidth, node.clientWidth]")
        assert sizes[0] == sizes[1]


@pytest.mark.nightly
def test_the_panel_works_where_the_load_is_not_answered(panel: Locator, kernel_name: str, picture: Picture) -> None:
    page = panel.page
    page.route("**/my-node/metrics*", lambda route: route.fulfill(status=404, body="<b>no such route</b>"))
    expect(section(open_card(panel, "my-node"), "Load of my-node")).to_contain_text("Couldn't load")
    expect(panel.get_by_role("button", name="Open new notebook on my-node")).to_be_enabled()
    picture(page, "load-unanswered")
