"""The last hour of a node in the panel: when it was in use, when it was idle, and why."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cards import open_card
from open_notebooks import Notebook, run_all
from playwright.sync_api import Locator, Page, expect

if TYPE_CHECKING:
    from conftest import Picture

pytestmark = [pytest.mark.nightly, pytest.mark.system("chromium")]

AXE = Path(__file__).parents[3] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
HOUR = "Activity of my-node in the last hour"


@pytest.fixture
def panel(lab: Page) -> Locator:
    lab.locator('.jp-SideBar [data-id="jupyter-tpu-panel"]').click()
    return lab.locator("#jupyter-tpu-panel")


def violations(page: Page) -> Any:
    """What axe finds in the panel."""
    page.evaluate(AXE.read_text())
    return page.evaluate(
        "selector => axe.run(selector).then(({violations}) => violations.map(({id, nodes}) => [id, nodes[0].html]))",
        "#jupyter-tpu-panel",
    )


def test_the_last_hour_tells_which_notebook_kept_a_node_in_use(
    write_notebook: Callable[..., Notebook], panel: Locator, picture: Picture
) -> None:
    page = panel.page
    notebook = write_notebook("long.ipynb", "pass_gate('a')")
    notebook.open_in(page)
    run_all(page)
    notebook.has_reached("a")
    open_card(panel, "my-node").get_by_text("Activity", exact=True).click()

    hour = panel.get_by_role("figure", name=HOUR)
    hour.get_by_text("Show as table").click()
    expect(hour.get_by_role("table", name=HOUR)).to_contain_text("in use: a cell of long.ipynb runs")
    expect(hour.locator("canvas")).to_be_visible()
    picture(page, "idle-in-use")

    notebook.pass_gate("a")
    first = hour.get_by_role("row").nth(1)
    expect(first).to_contain_text(re.compile("idle$"))
    expect(hour.get_by_role("img")).to_have_attribute("aria-label", re.compile("^" + HOUR))


def test_the_closed_load_says_whether_the_chips_are_in_use(panel: Locator, kernel_name: str) -> None:
    load = open_card(panel, "my-node").get_by_role("region", name="Load of my-node")
    expect(load.get_by_role("button")).to_have_text("Loadidle")


def test_the_last_hour_is_for_everybody_in_both_themes_and_narrow(
    panel: Locator, kernel_name: str, picture: Picture
) -> None:
    page = panel.page
    page.set_viewport_size({"width": 700, "height": 1400})
    open_card(panel, "my-node").get_by_text("Activity", exact=True).click()
    hour = panel.get_by_role("figure", name=HOUR)
    expect(hour.locator("canvas")).to_be_visible()
    hour.get_by_text("Show as table").click()
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
        expect(page.locator("body")).to_have_attribute("data-jp-theme-name", theme)
        page.wait_for_selector("#jupyterlab-splash", state="detached")
        assert violations(page) == []
        picture(page, f"idle-narrow-{theme.rpartition(' ')[2].lower()}")
    sizes = panel.evaluate("node => [node.scrollWidth, node.clientWidth]")
    assert sizes[0] == sizes[1]
    page.set_viewport_size({"width": 1280, "height": 800})
