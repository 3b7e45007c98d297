"""A notebook says how its kernel is reached, apart from what the kernel does, and is connected again by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from open_notebooks import Notebook, expect_shown, numbers, run_all
from playwright.sync_api import Page, expect

from jupyter_tpu.emulator.control.client import EmulatorControl

if TYPE_CHECKING:
    from path_to_server import PathToServer

    from conftest import Demo, OpenLab, Picture

pytestmark = [pytest.mark.system("chromium")]

NODE = "projects/demo-project/locations/us-central1-a/nodes/my-node"
STATUS = ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-tpu-KernelStatus"


@pytest.fixture
def cloud(demo: Demo) -> EmulatorControl:
    return EmulatorControl(demo.ledger_url.split("/emulator/")[0])


@pytest.mark.nightly
def test_a_notebook_says_for_how_long_the_link_is_down_and_goes_on_when_it_is_back(
    write_notebook: Callable[..., Notebook], lab: Page, cloud: EmulatorControl, picture: Picture
) -> None:
    notebook = write_notebook("link.ipynb", "count(0, 10)\npass_gate('a')\ncount(10, 30)\npass_gate('b')\n")
    notebook.open_in(lab)
    run_all(lab)
    expect_shown(lab, ["[*]", numbers(0, 10)])
    status = lab.locator(STATUS)
    expect(status).to_have_text("")

    cloud.fault_link(NODE, "refuse")
    cloud.fault_link(NODE, "reset")

    expect(status).to_contain_text("Disconnected ·")
    expect(status.get_by_title("The kernel keeps running.")).to_be_visible()
    expect(lab.locator("#jp-bottom-panel")).to_contain_text("| Busy")  # the link's state is not the kernel's
    expect_shown(lab, ["[*]", numbers(0, 10)])
    picture(lab, "link-down")
    notebook.pass_gate("a")
    notebook.has_reached("b")
    cloud.fault_link(NODE, "clear")
    expect_shown(lab, ["[*]", numbers(0, 30)])
    expect(status).to_have_text("")
    notebook.pass_gate("b")
    expect_shown(lab, ["[2]", numbers(0, 30)])


@pytest.mark.nightly
def test_a_page_that_is_opened_while_the_link_is_down_says_so_at_once(
    write_notebook: Callable[..., Notebook], open_lab: OpenLab, cloud: EmulatorControl, picture: Picture
) -> None:
    notebook = write_notebook("opened.ipynb", "count(0, 10)\npass_gate('a')\n")
    first = open_lab()
    notebook.open_in(first)
    run_all(first)
    notebook.has_reached("a")
    cloud.fault_link(NODE, "refuse")
    cloud.fault_link(NODE, "reset")
    expect(first.locator(STATUS)).to_contain_text("Disconnected ·")
    first.close()

    page = open_lab()
    notebook.open_in(page)

    expect(page.locator(STATUS)).to_contain_text("Disconnected ·")
    picture(page, "opened-while-down")
    cloud.fault_link(NODE, "clear")
    expect(page.locator(STATUS)).to_have_text("")
    expect_shown(page, ["[*]", numbers(0, 10)])
    notebook.pass_gate("a")


@pytest.mark.nightly
def test_a_page_says_that_the_server_does_not_answer_and_connects_again_as_soon_as_it_does(
    write_notebook: Callable[..., Notebook], open_lab: OpenLab, path_to_server: PathToServer, picture: Picture
) -> None:
    notebook = write_notebook("server.ipynb", "count(0, 10)\npass_gate('a')\ncount(10, 30)\npass_gate('b')\n")
    page = open_lab(path_to_server.port)
    notebook.open_in(page)
    run_all(page)
    expect_shown(page, ["[*]", numbers(0, 10)])
    status = page.locator(STATUS)

    path_to_server.fault("refuse")
    path_to_server.fault("reset")

    expect(status).to_contain_text("Server unreachable ·")
    picture(page, "server-away")
    notebook.pass_gate("a")
    notebook.has_reached("b")
    path_to_server.fault("clear")
    expect_shown(page, ["[*]", numbers(0, 30)])
    expect(status).to_have_text("")
    notebook.pass_gate("b")
    expect_shown(page, ["[2]", numbers(0, 30)])
