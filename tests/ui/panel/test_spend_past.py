"""Money over time in the panel: hour by hour, day by day, and how a budget came to be used."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Locator, Page, expect

from jupyter_tpu.journal.journal import FILE_NAME, Journal
from jupyter_tpu.journal.ledger import Ledger
from jupyter_tpu.models import NodeName
from jupyter_tpu.money.accrual import NodesObservation, ObservedNode

if TYPE_CHECKING:
    from conftest import Demo, Picture

pytestmark = [pytest.mark.nightly, pytest.mark.system("chromium")]

AXE = Path(__file__).parents[3] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
HOUR_S = 3600.0
LONG_NAME = "everything that the whole of our laboratory may spend in all"


@pytest.fixture(scope="module")
def past(demo: Demo, kernel_name: str) -> float:
    """The ledger tells of four earlier nodes: seen, watched by nobody at its end, of unknown price, and days ago.

    What the first of them cost, in dollars.
    """
    folder = demo.folder / "jupyter" / "tpu"
    with closing(sqlite3.connect(folder / FILE_NAME)) as database:
        ((endpoint, name),) = database.execute("SELECT DISTINCT endpoint, node_name FROM spans").fetchall()
    with closing(Journal.open(folder)) as journal:
        ledger = Ledger(journal, endpoint=endpoint, project=NodeName.parse(name).project)
        ran(ledger, _sight(name, "days-ago", 9.6), began=100, ended=96, gone=96)
        ran(ledger, _sight(name, "seen", 9.6), began=15, ended=13, gone=13)
        ran(ledger, _sight(name, "unwatched", 4.8), began=10, ended=9, gone=7)
        ran(ledger, _sight(name, "unpriced", None), began=5, ended=4, gone=4)
    return 2 * 9.6


def _sight(ready: str, node_id: str, usd_per_hour: float | None) -> ObservedNode:
    own = NodeName.parse(ready)
    name = NodeName(project=own.project, zone=own.zone, node_id=node_id)
    accelerator_type = "v5litepod-8" if usd_per_hour else "v2-8"
    return ObservedNode(
        name=name, uid=node_id, accelerator_type=accelerator_type, spot=False, usd_per_hour=usd_per_hour
    )


def ran(ledger: Ledger, sight: ObservedNode, *, began: float, ended: float, gone: float) -> None:
    """It was seen READY from and until so many hours ago, and not READY at the last."""
    now = time.time()
    ledger.record(NodesObservation(as_of=now - began * HOUR_S, ready=(sight,)))
    ledger.record(NodesObservation(as_of=now - ended * HOUR_S, ready=(sight,)))
    ledger.record(NodesObservation(as_of=now - gone * HOUR_S + 1.0))


@pytest.fixture
def spend(lab: Page, past: float) -> Locator:
    """The section of the panel, which is open at first."""
    lab.locator('.jp-SideBar [data-id="jupyter-tpu-panel"]').click()
    return lab.get_by_role("region", name="Spend", exact=True)


@pytest.fixture(autouse=True)
def no_budgets_left(demo: Demo) -> Iterator[None]:
    yield
    for budget in demo.ask("jupyter-tpu/v1/spend")["budgets"]:
        demo.ask(f"jupyter-tpu/v1/budgets/{budget['name'].replace(' ', '%20')}", "DELETE")


def set_budget(page: Page, name: str, amount: float, period: str) -> None:
    terms = {"amount": amount, "unit": "usd", "period": period, "action": "warn"}
    page.evaluate("args => window.jupyterapp.commands.execute('tpu:set-budget', args)", {"name": name, "terms": terms})


def violations(page: Page) -> Any:
    """What axe finds in the panel."""
    page.evaluate(AXE.read_text())
    return page.evaluate(
        "selector => axe.run(selector).then(({violations}) => violations.map(({id, nodes}) => [id, nodes[0].html]))",
        "#jupyter-tpu-panel",
    )


def test_what_was_spent_is_seen_hour_by_hour_and_day_by_day(spend: Locator, past: float, picture: Picture) -> None:
    page = spend.page
    hours = spend.get_by_role("figure", name="Spending per hour, last 24 hours")
    expect(hours.get_by_role("img")).to_have_attribute("aria-label", _contains("Total at least $"))
    expect(hours).to_contain_text("estimated maximum for unmonitored time")
    expect(hours).to_contain_text("plus unknown prices: v2-8")
    hours.get_by_text("Show as table").click()
    table = hours.get_by_role("table", name="Spending per hour, last 24 hours")
    expect(table).to_contain_text("up to $")
    expect(table).to_contain_text("cost unknown")
    expect(hours.locator("canvas")).to_be_visible()
    picture(page, "past-hours")

    hours.get_by_role("button", name="7 d", exact=True).click()
    days = spend.get_by_role("figure", name="Spending per day, last 7 days")
    expect(days.get_by_role("img")).to_have_attribute("aria-label", _contains("Total at least $"))
    picture(page, "past-days")
    asked = page.evaluate("() => fetch('/jupyter-tpu/v1/spend/history?by=day&last=7').then(answer => answer.json())")
    assert asked["sum"]["known_usd"] > past + 4 * 9.6


def _contains(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text))


def test_a_budget_shows_how_it_came_to_be_used_until_it_is_removed(spend: Locator, picture: Picture) -> None:
    page = spend.page
    set_budget(page, "weekly", 200, "week")
    spend.get_by_role("button", name="Budget weekly", exact=True).click()
    course = spend.get_by_role("figure", name="Usage of budget weekly over time")
    expect(course.get_by_role("img")).to_have_attribute("aria-label", _contains("of $200.00 used"))
    expect(course).to_contain_text("cap")
    expect(course.locator("canvas")).to_be_visible()
    picture(page, "past-budget")

    spend.get_by_role("button", name="Remove the budget weekly").click()
    expect(spend.get_by_role("figure", name="Spending per hour, last 24 hours")).to_be_visible()


def test_the_past_is_for_everybody_in_both_themes_and_narrow(spend: Locator, picture: Picture) -> None:
    page = spend.page
    set_budget(page, LONG_NAME, 60, "total")
    spend.get_by_text("Show as table").click()
    page.set_viewport_size({"width": 700, "height": 1400})
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
        expect(page.locator("body")).to_have_attribute("data-jp-theme-name", theme)
        page.wait_for_selector("#jupyterlab-splash", state="detached")
        for choice in ("24 h", f"Budget {LONG_NAME}"):
            button = spend.get_by_role("button", name=choice, exact=True)
            button.click()
            expect(button).to_have_attribute("aria-pressed", "true")
            expect(spend.locator("canvas")).to_be_visible()
            assert violations(page) == []
            picture(page, f"past-narrow-{theme.rpartition(' ')[2].lower()}-{choice.split()[0]}")
        sizes = page.locator("#jupyter-tpu-panel").evaluate("node => [node.scrollWidth, node.clientWidth]")
        assert sizes[0] == sizes[1]
    page.set_viewport_size({"width": 1280, "height": 800})
