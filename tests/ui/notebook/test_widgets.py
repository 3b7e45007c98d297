"""The widgets in JupyterLab and Notebook 7: alive while a cell runs, right after a reload, readable for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from late_widgets import LateWidgets
from open_notebooks import IS_OPEN, KERNEL, Notebook, execute, run_all, save
from playwright.sync_api import Page, expect
from widget_pages import GROW, GROWN, SHOW, TAKE, all_violations, first_chip, widget

if TYPE_CHECKING:
    from conftest import Demo, Picture

pytestmark = [pytest.mark.system("chromium")]

# What JupyterLab says to a widget before it has a subshell waits for the cell that runs.
HAS_SUBSHELL = f"""() => {{
  const comms = [...{KERNEL}._comms.values()].filter(comm => comm.targetName === 'jupyter.widget');
  return comms.length > 0 && comms.every(comm => comm.subshellId);
}}"""


def use_theme(page: Page, theme: str) -> None:
    page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
    expect(page.locator("body")).to_have_attribute("data-jp-theme-name", theme)


def test_numbers_are_live_while_a_cell_runs(
    write_notebook: Callable[..., Notebook], lab: Page, picture: Picture
) -> None:
    notebook = write_notebook("live.ipynb", TAKE, SHOW, "TpuMonitor()", GROW)
    notebook.open_in(lab)
    run_all(lab)
    notebook.has_reached("a")
    expect(first_chip(lab)).to_contain_text("of 16.00 GiB")
    expect(first_chip(lab)).not_to_contain_text(GROWN)

    notebook.pass_gate("a")
    notebook.has_reached("b")

    expect(first_chip(lab)).to_contain_text(GROWN)
    picture(lab, "widgets-live")
    notebook.pass_gate("b")


@pytest.mark.nightly
def test_buttons_are_heard_while_a_cell_runs(write_notebook: Callable[..., Notebook], lab: Page) -> None:
    notebook = write_notebook("keep.ipynb", SHOW, "IdleTimer()", "pass_gate('a')")
    notebook.open_in(lab)
    run_all(lab)
    notebook.has_reached("a")
    idle = widget(lab, "Idle timer")
    expect(idle).to_contain_text("Running cells")
    expect(idle).to_contain_text("keep.ipynb runs")
    lab.wait_for_function(HAS_SUBSHELL)

    idle.get_by_role("button", name="Keep running 1 h").press("Enter")

    expect(idle.get_by_role("status")).to_contain_text(["The node keeps running for"])
    expect(idle.get_by_role("button", name="Cancel")).to_be_visible()
    notebook.pass_gate("a")
    idle.get_by_role("button", name="Cancel").click()
    expect(idle.get_by_role("status")).to_contain_text(["Extension cancelled."])
    expect(idle.get_by_role("button", name="Cancel")).to_be_hidden()


@pytest.mark.nightly
@pytest.mark.parametrize("path", ["lab/tree", "notebooks"])
def test_the_widget_is_alive_again_in_a_page_that_was_opened_while_a_cell_ran(
    path: str, demo: Demo, write_notebook: Callable[..., Notebook], lab: Page, picture: Picture
) -> None:
    notebook = write_notebook(f"reload-{path[:3]}.ipynb", TAKE, SHOW, "TpuMonitor()", GROW)
    notebook.open_in(lab)
    run_all(lab)
    notebook.has_reached("a")
    expect(first_chip(lab)).to_contain_text("of 16.00 GiB")
    save(lab)

    lab.goto(f"{demo.base_url}/{path}/{notebook.path}")
    expect(lab.get_by_text("Loading widget...")).to_be_visible()
    notebook.pass_gate("a")
    notebook.has_reached("b")
    notebook.pass_gate("b")

    expect(first_chip(lab)).to_contain_text(GROWN)
    picture(lab, f"widgets-reload-{path[:3]}")


@pytest.mark.nightly
def test_a_widget_that_comes_as_a_page_gives_it_up_is_shown(
    demo: Demo, write_notebook: Callable[..., Notebook], lab: Page
) -> None:
    notebook = write_notebook("late.ipynb", TAKE, SHOW, "TpuMonitor()")
    notebook.open_in(lab)
    run_all(lab)
    expect(first_chip(lab)).to_contain_text("of 16.00 GiB")
    notebook.has_ended()
    save(lab)
    late = LateWidgets(lab)
    lab.goto(f"{demo.base_url}/lab/tree/{notebook.path}")
    expect(lab.get_by_text("Loading widget...")).to_be_visible()

    late.come_at_the_last_moment()

    expect(first_chip(lab)).to_contain_text("of 16.00 GiB")


@pytest.mark.nightly
def test_the_widgets_of_notebook_7_are_live_and_hear_and_come_back_after_a_reload(
    demo: Demo, write_notebook: Callable[..., Notebook], lab: Page, picture: Picture
) -> None:
    notebook = write_notebook("seven.ipynb", TAKE, SHOW, "TpuMonitor()", "IdleTimer()", GROW)
    lab.goto(f"{demo.base_url}/notebooks/{notebook.path}")
    lab.wait_for_function(IS_OPEN)
    run_all(lab)
    notebook.has_reached("a")
    expect(first_chip(lab)).to_contain_text("of 16.00 GiB")
    notebook.pass_gate("a")
    notebook.has_reached("b")
    expect(first_chip(lab)).to_contain_text(GROWN)
    picture(lab, "widgets-notebook-7")
    notebook.pass_gate("b")
    notebook.has_ended()
    save(lab)

    lab.reload()
    keep = widget(lab, "Idle timer").get_by_role("button", name="Keep running 1 h")
    keep.click()

    expect(widget(lab, "Idle timer").get_by_role("status")).to_contain_text(["The node keeps running for"])
    expect(first_chip(lab)).to_contain_text(GROWN)


@pytest.mark.nightly
def test_all_widgets_can_be_read_in_both_themes(
    write_notebook: Callable[..., Notebook], lab: Page, picture: Picture
) -> None:
    notebook = write_notebook("themes.ipynb", TAKE, SHOW, "TpuMonitor()", "IdleTimer()", "QuotaAndCredit()")
    notebook.open_in(lab)
    run_all(lab)
    expect(first_chip(lab)).to_contain_text("of 16.00 GiB")
    expect(widget(lab, "Quota and credit")).to_contain_text("$9.60 per hour")
    execute(lab, "application:toggle-left-area")
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        use_theme(lab, theme)
        for width in (1280, 480):
            lab.set_viewport_size({"width": width, "height": 1400})
            assert all_violations(lab) == {}
            picture(lab, f"widgets-{theme.split()[1].lower()}-{width}")
    lab.set_viewport_size({"width": 1280, "height": 800})
