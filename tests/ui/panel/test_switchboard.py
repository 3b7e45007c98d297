"""The demo's fault switchboard: what is broken there is seen in the panel and the notebook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from open_notebooks import until
from playwright.sync_api import Locator, Page, expect

from jupyter_tpu.emulator.control.client import EmulatorControl

if TYPE_CHECKING:
    from conftest import Demo, Picture

pytestmark = [pytest.mark.system("chromium")]

SPEC = {
    "node_id": "my-node",
    "zone": "us-central1-a",
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
    "spot": True,
}


@pytest.fixture
def control(demo: Demo) -> Iterator[EmulatorControl]:
    control = EmulatorControl(demo.ledger_url.split("/emulator/")[0])
    yield control
    control.reset()


@pytest.fixture
def panel(lab: Page) -> Locator:
    lab.locator('.jp-SideBar [data-id="jupyter-tpu-panel"]').click()
    return lab.locator("#jupyter-tpu-panel")


@pytest.fixture
def board(panel: Locator) -> Locator:
    """The switchboard, opened as a user of the demo finds it."""
    panel.get_by_role("button", name="Simulate a failure…").click()
    board = panel.page.locator("#jupyter-tpu-switchboard")
    expect(board.get_by_role("region", name="Clock")).to_be_visible()
    return board


def create_node(page: Page) -> None:
    page.evaluate("spec => { void window.jupyterapp.commands.execute('tpu:create-node', spec); }", SPEC)


def create_usable_node(panel: Locator) -> None:
    """One that is gone before it can be used is a failed wish, which stays in the panel until it is dismissed."""
    create_node(panel.page)
    expect(panel.get_by_role("button", name="Open new notebook on my-node")).to_be_enabled()


def row(place: Locator, name: str = "my-node") -> Locator:
    return place.get_by_role("listitem").filter(has_text=name)


def is_paused(control: EmulatorControl) -> bool:
    return bool(control.state()["clock"]["paused"])


@pytest.mark.nightly
def test_a_node_that_is_taken_back_is_seen_in_the_panel(
    board: Locator, panel: Locator, control: EmulatorControl, picture: Picture
) -> None:
    create_usable_node(panel)
    nodes = board.get_by_role("region", name="Nodes and queued resources")
    expect(row(nodes)).to_contain_text("Ready")
    picture(board.page, "switchboard")

    nodes.get_by_role("button", name="Pre-empt my-node").click()

    expect(row(panel)).to_contain_text("Pre-empted")
    expect(row(nodes)).to_contain_text("Pre-empted")
    assert control.billing() == []
    picture(board.page, "switchboard-preempted")


@pytest.mark.nightly
def test_a_scripted_fault_is_a_refusal_in_the_panel(
    board: Locator, panel: Locator, control: EmulatorControl, picture: Picture
) -> None:
    form = board.get_by_role("form", name="Add a fault")
    form.get_by_label("Fails with").select_option("Refused: quota used up (429)")
    form.get_by_role("button", name="Add fault").click()
    waiting = board.get_by_role("list", name="Pending faults")
    expect(waiting).to_contain_text("CreateNode · Refused: quota used up (429)")

    create_node(board.page)

    card = row(panel).get_by_role("alert")
    expect(card).to_contain_text("quota", ignore_case=True)
    expect(waiting).to_have_count(0)  # it has hit its call
    picture(board.page, "switchboard-refusal")
    assert control.billing() == []
    card.get_by_role("button", name="Dismiss").click()


@pytest.mark.nightly
def test_a_zone_without_room_is_a_stock_out_in_the_panel(
    board: Locator, panel: Locator, control: EmulatorControl
) -> None:
    form = board.get_by_role("form", name="Limit the capacity of a zone")
    form.get_by_label("Zone").select_option("us-central1-a")
    form.get_by_label("Generation").select_option("v5e")
    form.get_by_label("Capacity (chips)").fill("0")
    form.get_by_role("button", name="Set capacity").click()
    limited = board.get_by_role("list", name="Zones with limited capacity")
    expect(limited).to_contain_text("v5e in us-central1-a · stock-out")

    create_node(board.page)

    card = row(panel).get_by_role("alert")
    expect(card).to_contain_text("no capacity")
    assert control.billing() == []
    card.get_by_role("button", name="Dismiss").click()
    limited.get_by_role("button", name="Remove the limit of v5e in us-central1-a").click()
    expect(limited).to_have_count(0)


@pytest.mark.nightly
def test_the_clock_is_paused_and_stepped_by_keyboard_alone(board: Locator, control: EmulatorControl) -> None:
    clock = board.get_by_role("region", name="Clock")

    clock.get_by_role("button", name="Pause").press("Enter")

    expect(clock).to_contain_text("paused")
    assert is_paused(control)
    stood_at = control.now()
    expect(clock.get_by_role("button", name="Resume")).to_be_focused()
    board.page.keyboard.press("Tab")
    board.page.keyboard.press("Tab")
    expect(clock.get_by_role("button", name="+1 hour")).to_be_focused()
    board.page.keyboard.press("Space")
    until(lambda: control.now() == pytest.approx(stood_at + 3600), "the clock was not moved ahead by an hour")
    clock.get_by_role("button", name="Resume").click()
    expect(clock).not_to_contain_text("paused")


@pytest.mark.nightly
def test_what_the_cloud_refuses_is_said_on_the_page(board: Locator, picture: Picture) -> None:
    form = board.get_by_role("form", name="Project limits")
    form.get_by_label("Allowed types").fill("v5litepod-8, <img src=x onerror='window.pwned = 1'>")
    board.page.route("**/emulator/project*", lambda route: route.abort())
    form.get_by_role("button", name="Set limits").click()

    expect(board.get_by_role("alert")).to_contain_text("is not responding")
    picture(board.page, "switchboard-error")
    board.get_by_role("button", name="Dismiss").click()
    expect(board.get_by_role("alert")).to_have_count(0)
    assert board.page.evaluate("() => window.pwned") is None


@pytest.mark.nightly
def test_a_reset_asks_and_then_takes_everything(
    board: Locator, panel: Locator, control: EmulatorControl, picture: Picture
) -> None:
    create_usable_node(panel)
    control.add_fault("ListNodes", "latency", seconds=1)
    dialog = board.page.locator(".jp-Dialog")

    board.get_by_role("button", name="Reset…").click()
    dialog.get_by_role("button", name="Cancel").click()
    assert control.billing() != []

    board.get_by_role("button", name="Reset…").click()
    expect(dialog).to_contain_text("disks and files")
    picture(board.page, "switchboard-reset")
    dialog.get_by_role("button", name="Reset").click()

    expect(row(panel)).to_have_count(0)
    expect(board).to_contain_text("No nodes yet")
    assert control.billing() == []
    assert control.faults() == []
