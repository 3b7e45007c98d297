"""Money in the panel: what runs is seen, capped, kept, swept and covered by a grant, as a user does it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from cards import open_card
from open_notebooks import Notebook, until
from playwright.sync_api import Locator, Page, expect

from jupyter_tpu.emulator.control.client import EmulatorControl

if TYPE_CHECKING:
    from conftest import Demo, Picture

pytestmark = [pytest.mark.system("chromium")]

ZONE = "us-central1-a"
MAIL = f"32 spot Cloud TPU v5e chips in zone {ZONE}"


@pytest.fixture
def panel(lab: Page) -> Locator:
    lab.locator('.jp-SideBar [data-id="jupyter-tpu-panel"]').click()
    return lab.locator("#jupyter-tpu-panel")


@pytest.fixture
def full_zone(demo: Demo) -> Iterator[str]:
    """A zone without room for another node."""
    control = EmulatorControl(demo.ledger_url.split("/emulator/")[0])
    control.set_capacity(ZONE, "v5e", 0)
    yield ZONE
    control.set_capacity(ZONE, "v5e", None)


def section(panel: Locator, name: str) -> Locator:
    """A section of the panel, opened."""
    found = panel.get_by_role("region", name=name, exact=True)
    head = found.get_by_role("button").first
    if head.get_attribute("aria-expanded") == "false":
        head.click()
    return found


def test_money_from_the_first_node_to_the_cleanup(
    panel: Locator, kernel_name: str, demo: Demo, picture: Picture
) -> None:
    page = panel.page
    status = page.locator(".jp-tpu-MoneyStatus button")
    expect(status).to_contain_text("TPU $9.60/h")

    spend = section(panel, "Spend")
    expect(spend).to_contain_text("$9.60 per hour")
    set_budget(spend)
    expect(spend.get_by_role("meter", name="Budget weekly")).to_be_attached()
    picture(page, "money-spend")

    keep(panel)
    picture(page, "money-kept")

    add_grant(section(panel, "Grants and credits"), picture)
    picture(page, "money-grant")

    choose(panel)
    picture(page, "money-form")
    panel.get_by_role("form", name="Create a node").get_by_role("button", name="Cancel").click()

    quota = section(panel, "Quota")
    expect(quota.get_by_role("list", name="Quota limits")).to_contain_text("my-node")
    clean_up(panel, picture)
    assert demo.ask("jupyter-tpu/v1/nodes")["nodes"][0]["kernelspec"] == kernel_name  # nothing was deleted
    activity = section(panel, "Audit log")
    expect(activity.get_by_role("list")).to_contain_text("Budget")
    picture(page, "money-activity")


def set_budget(spend: Locator) -> None:
    spend.get_by_role("button", name="Set a budget…").click()
    form = spend.get_by_role("form", name="Set a budget")
    form.get_by_label("Name").fill("weekly")
    form.get_by_label("Amount").fill("500")
    form.get_by_label("Resets on").select_option("Friday")
    form.get_by_role("button", name="Set budget").click()


def keep(panel: Locator) -> None:
    left = open_card(panel, "my-node").get_by_role("group", name="Auto-stop for my-node")
    left.get_by_role("button", name="Keep my-node running 1 h").click()
    expect(left).to_contain_text("Keeps running until")
    left.get_by_text("Activity", exact=True).click()
    expect(left).to_contain_text("Running cells")


def add_grant(grants: Locator, picture: Picture) -> None:
    grants.get_by_role("button", name="Add a grant or credit…").click()
    form = grants.get_by_role("form")
    form.get_by_label("Email text").fill(MAIL)
    form.get_by_role("button", name="Read email").click()
    expect(form.get_by_role("list", name="Grant rows")).to_contain_text("32 chips v5e · spot · us-central1-a")
    form.get_by_label("First day").fill(form.evaluate("() => new Date().toISOString().slice(0, 10)"))
    form.get_by_label("Days").fill("30")
    picture(grants.page, "money-grant-form")
    form.get_by_role("button", name="Save").click()
    expect(grants.get_by_role("list", name="Grants and credits")).to_contain_text("0 used, 32 free")


def choose(panel: Locator) -> None:
    """What is free under the grant is chosen at first; on-demand is billed, and the form says so before the click."""
    panel.get_by_role("button", name="Create a node").first.click()
    form = panel.get_by_role("form", name="Create a node")
    meaning = form.get_by_role("status", name="Price and quota for this choice")
    expect(form.get_by_label("Location")).to_have_value("us-central1-a")
    expect(meaning).to_contain_text("Free under your TRC grant trc")
    form.get_by_role("radio", name="On demand").check()
    expect(meaning).to_contain_text("$9.60 per hour on-demand")


def clean_up(panel: Locator, picture: Picture) -> None:
    found = section(panel, "Billable resources and quota")
    found.get_by_label("my-node").check()
    found.get_by_role("button", name="Delete 1 selected…").click()
    dialog = panel.page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("Cost now: $9.60 per hour.")
    picture(panel.page, "money-cleanup")
    dialog.get_by_role("button", name="Cancel").click()


@pytest.fixture
def ends_in(lab: Page, demo: Demo, kernel_name: str) -> Iterator[Callable[[float], None]]:
    """Lays down for how long the session of the node goes on from now, in seconds; nothing after the test."""

    def execute(command: str, **args: Any) -> None:
        node = {"zone": ZONE, "node_id": "my-node"}
        lab.evaluate("([id, args]) => window.jupyterapp.commands.execute(id, args)", [command, {**node, **args}])

    def ends_at() -> Any:
        return demo.ask("jupyter-tpu/v1/autostop")["nodes"][0]["ends_at"]

    def lay_down(seconds: float) -> None:
        execute("tpu:keep-node")  # it may be kept still
        execute("tpu:set-brakes", idle_after_s=None, session_s=86_400)
        until(ends_at, "the session of the node has not begun")
        execute("tpu:set-brakes", session_s=time.time() - (ends_at() - 86_400) + seconds)

    yield lay_down
    execute("tpu:set-brakes", session_s=None)
    execute("tpu:keep-node")


@pytest.mark.nightly
def test_a_notebook_counts_down_to_the_end_of_its_node_until_it_is_kept(
    write_notebook: Callable[..., Notebook], lab: Page, ends_in: Callable[[float], None], picture: Picture
) -> None:
    shown = write_notebook("ending.ipynb").open_in(lab)
    lab.wait_for_function("() => window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel")
    warning = shown.get_by_role("group", name="Auto-stop warning for my-node")
    expect(warning).to_have_count(0)

    ends_in(500)

    expect(warning.get_by_role("timer")).to_contain_text("maximum session length of")
    picture(lab, "money-countdown")
    warning.get_by_role("button", name="Keep my-node running until a set time").click()
    expect(warning.get_by_label("Keep running until")).to_have_value(re.compile(r"\d\d:00"))
    warning.get_by_role("button", name="Keep my-node running 1 h").click()
    expect(warning).to_have_count(0)


@pytest.mark.nightly
def test_the_panel_works_where_money_is_not_answered(panel: Locator, kernel_name: str, picture: Picture) -> None:
    page = panel.page
    page.route("**/jupyter-tpu/v1/spend*", lambda route: route.fulfill(status=404, body="<b>no such route</b>"))
    panel.get_by_role("button", name="Refresh the list").click()
    expect(panel.get_by_role("region", name="Spend", exact=True)).to_contain_text("Couldn't load")
    expect(panel.get_by_role("button", name="Open new notebook on my-node")).to_be_enabled()
    picture(page, "money-unanswered")


@pytest.mark.nightly
def test_a_search_shows_its_refusals_until_it_is_cancelled(
    panel: Locator, kernel_name: str, full_zone: str, picture: Picture
) -> None:
    panel.get_by_role("button", name="Create a node").first.click()
    form = panel.get_by_role("form", name="Create a node")
    form.get_by_role("radio", name="On demand").check()  # the form remembers what an earlier test chose
    form.get_by_label("Location").select_option("Anywhere (search)")
    form.get_by_text("More options", exact=True).click()
    accepted = form.get_by_role("group", name="Accept any of these")
    for box in accepted.get_by_role("checkbox", checked=True).all()[:0:-1]:  # all but the zone that was chosen
        box.uncheck()
    form.get_by_label("Keep trying for (minutes)").fill("30")
    picture(panel.page, "money-search-form")
    form.get_by_role("button", name="Search").click()

    getting = panel.get_by_role("region", name="Search and queue")
    tries = getting.get_by_role("list", name="Attempts for node-1")
    expect(tries).to_contain_text(f"v5litepod-8 · {full_zone}: no capacity")
    tries.get_by_text("Original message").first.click()
    picture(panel.page, "money-search")
    getting.get_by_role("button", name="Cancel the search for node-1").click()
    expect(getting.get_by_role("list", name="Searches")).to_contain_text("cancelled")


@pytest.mark.nightly
def test_what_waits_in_the_queue_is_shown_and_removed(
    panel: Locator, kernel_name: str, full_zone: str, picture: Picture
) -> None:
    panel.get_by_role("button", name="Create a node").first.click()
    form = panel.get_by_role("form", name="Create a node")
    form.get_by_role("radio", name="Queue").check()
    form.get_by_text("More options", exact=True).click()
    form.get_by_label("Name", exact=True).fill("waiting")
    form.get_by_label("Give up after").select_option("1 hour")
    form.get_by_role("button", name="Queue", exact=True).click()

    waiting = panel.get_by_role("list", name="Queued resources")
    expect(waiting).to_contain_text(f"v5litepod-8 · {full_zone}")
    expect(waiting).to_contain_text("Waiting for capacity")
    picture(panel.page, "money-queue")
    waiting.get_by_role("button", name="Remove the queued resource").click()
    expect(waiting.get_by_role("listitem")).to_have_count(0)
