"""A notebook goes on with its kernel, and says why, when the server has refused to restart that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil
import pytest
from open_notebooks import KERNEL, Notebook, execute, expect_shown, go_to_cell, numbers
from playwright.sync_api import Page, expect

from jupyter_tpu.emulator.control.client import EmulatorControl
from jupyter_tpu.emulator.workers.process_tree import processes_of

if TYPE_CHECKING:
    from conftest import Demo, OpenLab, Picture

pytestmark = [pytest.mark.nightly, pytest.mark.system("chromium")]


@contextmanager
def full_disk(demo: Demo) -> Iterator[None]:
    """Whatever the node's agent writes fails, as on a full disk or in a home that is read-only."""
    (node,) = demo.ask("jupyter-tpu/v1/nodes")["nodes"]
    token = EmulatorControl(demo.ledger_url.split("/emulator/")[0]).workers(node["name"])[0]["token"]
    agent = next(process for process in processes_of([token]) if "agent" in process.cmdline())
    agent.rlimit(psutil.RLIMIT_FSIZE, (1, psutil.RLIM_INFINITY))
    try:
        yield
    finally:
        agent.rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))


def restart(page: Page, command: str, name: str) -> None:
    """As the user does it: the menu's command, and its question confirmed."""
    execute(page, command)
    page.get_by_role("button", name=name).click()


@pytest.mark.parametrize("page_of", ["lab", "notebook 7"])
def test_a_refused_restart_says_why_and_the_notebook_goes_on(
    page_of: str, demo: Demo, write_notebook: Callable[..., Notebook], open_lab: OpenLab, picture: Picture
) -> None:
    notebook = write_notebook(
        f"refused-{page_of[-1]}.ipynb", "count(0, 10)\npass_gate('a')\ncount(10, 20)", "'queued'", "print('new')"
    )
    page = open_lab()
    if page_of == "lab":
        notebook.open_in(page)
    else:
        page.goto(f"{demo.base_url}/notebooks/{notebook.path}")
    page.wait_for_function(f"() => {KERNEL}?.status === 'idle'")
    go_to_cell(page, 3)
    execute(page, "notebook:run-all-above")
    expect_shown(page, ["[*]", numbers(0, 10)], ["[*]"], ["[ ]"])

    with full_disk(demo):
        restart(page, "notebook:restart-run-all", "Confirm Kernel Restart")
        refused = page.locator(".jp-Dialog", has_text="Kernel not restarted")
        expect(refused).to_contain_text("disk of the worker can't be written")
        picture(page, f"refused-restart-{page_of[-1]}")
    refused.get_by_role("button", name="Close").click()
    expect(page.locator(".jp-Dialog")).to_have_count(0)

    page.wait_for_function(f"() => {KERNEL}.connectionStatus === 'connected' && {KERNEL}.status === 'busy'")
    expect_shown(page, ["[*]", numbers(0, 10)], ["[*]"], ["[ ]"])
    notebook.pass_gate("a")
    expect_shown(page, ["[2]", numbers(0, 20)], ["[3]", "'queued'"], ["[ ]"])
    page.wait_for_function(f"() => {KERNEL}.status === 'idle'")
    go_to_cell(page, 3)
    execute(page, "notebook:run-cell")
    expect_shown(page, ["[2]", numbers(0, 20)], ["[3]", "'queued'"], ["[4]", "new\n"])
