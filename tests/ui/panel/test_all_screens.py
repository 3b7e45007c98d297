"""Every screen fits where users put it, and everybody can use it: narrow, dark, at twice the zoom and in Chinese."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cards import card, open_card
from open_notebooks import IS_OPEN, until
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect
from running_demo import SPEC
from tiers import mostly_nightly
from widget_pages import AXE

from jupyter_tpu.emulator.control.client import EmulatorControl

if TYPE_CHECKING:
    from conftest import Demo, Picture

pytestmark = [pytest.mark.system("chromium")]

CHINESE = Path(__file__).parents[3] / "jupyter_tpu/locale/zh_CN/LC_MESSAGES/jupyter_tpu.json"
LANGUAGE = "lab/api/settings/@jupyterlab/translation-extension:plugin"
DAY_S = 86_400
NARROW_PX = 250  # the panel's width when JupyterLab is opened for the first time
NO_NODES = ".jp-tpu-Empty:not(.jp-tpu-Muted)"
OPEN_DETAILS = "node => node.querySelectorAll('details').forEach(details => { details.open = true; })"
EXECUTE = "([id, args]) => { void window.jupyterapp.commands.execute(id, args); }"
# What sticks out of its element, and text that is cut where no tooltip has the whole.
CUT = """root => [root, ...root.querySelectorAll('*:not(input, textarea, svg *)')].filter(element => {
  if (element.scrollWidth <= element.clientWidth + 1 || element.clientWidth <= 1) return false;
  const { overflowX } = getComputedStyle(element);
  return overflowX === 'visible' || (/hidden|clip/.test(overflowX) && !element.closest('[title]'));
}).map(({ className, textContent, scrollWidth, clientWidth }) =>
  `${className} ${scrollWidth} > ${clientWidth}: ${textContent.slice(0, 60)}`)"""
CUT_TEXTS = "texts => texts.filter(text => text.scrollWidth > text.clientWidth).map(text => text.textContent)"
# Whether the next text after a separator is on another line.
ENDS_A_LINE = """root => {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const letters = [];
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    [...text.data].forEach((letter, at) => {
      const range = document.createRange();
      range.setStart(text, at);
      range.setEnd(text, at + 1);
      if (letter.trim()) letters.push([letter, range.getBoundingClientRect()]);
    });
  }
  return letters.some(([letter, { bottom }], at) => letter === '·' && letters[at + 1]?.[1].top >= bottom);
}"""
# The rows of a card that are empty, but still have a gap around them.
EMPTY_ROWS = """body => [...body.children]
  .filter(row => row.offsetHeight === 0 && getComputedStyle(row).position !== 'absolute')
  .map(row => row.outerHTML)"""
# Whether something else covers the focused control, such as a sticky header.
COVERED = """() => {
  const control = document.activeElement;
  const { left, right, top, bottom } = control.getBoundingClientRect();
  const above = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
  return control.contains(above) ? '' : `${control.textContent}: ${above?.className}`;
}"""
VIOLATIONS = """root => axe.run(root).then(({ violations }) =>
  violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`)))"""


@dataclass(frozen=True)
class Look:
    name: str
    theme: str = "JupyterLab Light"
    language: str = "en"
    zoom: int = 1


LOOKS = [Look("dark", theme="JupyterLab Dark"), Look("Chinese", language="zh_CN"), Look("zoomed", zoom=2)]


@dataclass(frozen=True)
class Shown:
    """JupyterLab in one look."""

    page: Page
    demo: Demo
    look: Look

    def execute(self, command: str, **args: Any) -> None:
        self.page.evaluate(EXECUTE, [command, args])

    def panel(self) -> Locator:
        self.execute("tpu:open-panel")
        panel = self.page.locator("#jupyter-tpu-panel")
        expect(panel.locator(".jp-tpu-Header")).to_be_visible()
        return panel

    def with_node(self) -> Locator:
        """The panel with a READY node."""
        if not self.demo.ask("jupyter-tpu/v1/nodes")["nodes"]:
            self.demo.create_node()
        expect(card(self.panel(), "my-node").locator(".jp-tpu-Node-second > button").last).to_be_enabled()
        return self.panel()

    @property
    def cloud(self) -> EmulatorControl:
        return EmulatorControl(self.demo.ledger_url.split("/emulator/")[0])

    def without_nodes(self) -> Locator:
        self.cloud.reset()
        expect(self.panel().locator(".jp-tpu-Node")).to_have_count(0)
        return self.panel()


@pytest.fixture(scope="module", params=mostly_nightly(LOOKS, count=1), ids=lambda look: look.name)
def shown(request: pytest.FixtureRequest, demo: Demo, browser: BrowserContext) -> Iterator[Shown]:
    look: Look = request.param
    page = browser.new_page()
    page.set_viewport_size({"width": 1280 // look.zoom, "height": 800 // look.zoom})
    page.add_init_script("localStorage.clear()")  # the first steps were not done yet
    # a language pack for JupyterLab itself is not installed
    page.route("**/api/translations/zh_CN*", _chinese)
    demo.ask(LANGUAGE, "PUT", {"raw": json.dumps({"locale": look.language})})
    page.goto(f"{demo.url}&reset")
    page.wait_for_function(IS_OPEN)
    page.wait_for_selector("#jupyterlab-splash", state="detached")
    page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", look.theme)
    expect(page.locator("body")).to_have_attribute("data-jp-theme-name", look.theme)
    page.evaluate(AXE.read_text())
    yield Shown(page, demo, look)
    page.close()
    for session in demo.ask("api/sessions"):
        demo.ask(f"api/sessions/{session['id']}", "DELETE")


def _chinese(route: Route) -> None:
    route.fulfill(json={"data": {"jupyter_tpu": json.loads(CHINESE.read_text())}, "message": ""})


def first_steps(shown: Shown) -> Locator:
    panel = shown.without_nodes()
    expect(panel.locator(".jp-tpu-FirstSteps")).to_be_visible()
    return panel


def empty_panel(shown: Shown) -> Locator:
    panel = shown.without_nodes()
    steps = panel.locator(".jp-tpu-FirstSteps")
    expect(steps.or_(panel.locator(NO_NODES))).to_be_visible()  # the list has come, so it is known which of them it is
    if steps.count():
        panel.locator(".jp-tpu-Setup > .jp-tpu-Actions button").click()
    expect(steps).to_have_count(0)
    expect(panel.locator(NO_NODES)).to_be_visible()
    return panel


def create_form(shown: Shown) -> Locator:
    panel = shown.panel()
    shown.execute("tpu:open-form", **{**SPEC, "spot": True})
    form = panel.locator("form.jp-mod-sticky")
    expect(form.locator(".jp-tpu-Coverage")).to_contain_text("$4.80")
    form.locator(".jp-tpu-More > summary").click()
    rows = form.locator(".jp-tpu-Chips").evaluate("list => list.clientHeight / list.firstChild.offsetHeight")
    assert rows == round(rows), "rows of chips are cut"
    size = form.locator(".jp-tpu-Chips-row:has(input:checked) .jp-tpu-Chips-size")
    expect(size).to_have_text("8 × 16 GiB")
    cut = form.locator(".jp-tpu-Chips-size").evaluate_all(CUT_TEXTS)
    assert not cut, "the memory of the chips is cut"
    return form


def closed_card(shown: Shown) -> Locator:
    return card(shown.with_node(), "my-node")


def booting_card(shown: Shown) -> Locator:
    """A node like it was created before, so that the usual time is known; the clock stands still meanwhile."""
    panel = shown.with_node()
    shown.cloud.pause()
    shown.demo.ask("jupyter-tpu/v1/nodes", "POST", {**SPEC, "node_id": "booting"})
    booting = card(panel, "booting")
    progress = booting.locator(".jp-tpu-Progress-text")
    expect(progress).to_contain_text(re.compile(r"\d:\d\d\D+\d:\d\d"))
    assert progress.evaluate("text => text.scrollWidth <= text.clientWidth"), "a part is cut"
    assert not progress.evaluate(ENDS_A_LINE), "a separator ends a line"
    return booting


def opened_card(shown: Shown) -> Locator:
    opened = open_card(shown.with_node(), "my-node")
    shown.execute("tpu:change-autostop", zone=SPEC["zone"], node_id="my-node")
    expect(opened.locator("form")).to_be_visible()
    opened.evaluate(OPEN_DETAILS)
    opened.locator(".jp-tpu-Section-head").click()
    expect(opened.locator(".jp-tpu-Section-body")).to_be_visible()
    expect(opened.locator(".jp-tpu-Section-body > [role=status]")).to_have_count(0)
    assert opened.locator(".jp-tpu-Node-body").evaluate(EMPTY_ROWS) == []
    return opened


def money(shown: Shown) -> Locator:
    """All sections of the panel, with a budget."""
    panel = shown.with_node()
    terms = {"amount": 10, "unit": "usd", "period": "week", "action": "warn"}
    shown.execute("tpu:set-budget", name="a-budget-with-a-long-name", terms=terms)
    for section in ("spend", "grants", "quota", "capacity", "cleanup", "audit"):
        shown.execute("tpu:show-section", section=section)
        expect(panel.locator(".jp-tpu-Section-head:focus[aria-expanded=true]")).to_be_visible()
    expect(panel.locator(".jp-tpu-Sections")).to_contain_text("a-budget-with-a-long-name")
    expect(panel.locator(".jp-tpu-Sections .jp-tpu-Muted[role=status]")).to_have_count(0)
    panel.evaluate(OPEN_DETAILS)
    expect(panel.locator(".jp-tpu-Facts")).to_have_count(2)  # of the budget, and of the node to clean up
    for facts in panel.locator(".jp-tpu-Facts").all():
        assert not facts.evaluate(ENDS_A_LINE), "a separator ends a line"
    return panel.locator(".jp-tpu-Sections")


def set_up(shown: Shown) -> Locator:
    shown.execute("tpu:set-up")
    set_up = shown.panel().locator(".jp-tpu-Setup")
    expect(set_up.locator(".jp-tpu-Setup-lines[aria-busy=false]")).to_be_visible()
    return set_up


def failure_simulator(shown: Shown) -> Locator:
    shown.with_node()
    shown.execute("tpu:open-switchboard")
    page = shown.page.locator(".jp-tpu-Switchboard")
    expect(page.locator(".jp-tpu-Card")).to_have_count(8)
    return page


def status(shown: Shown) -> Locator:
    shown.with_node()
    shown.page.locator(".jp-tpu-MoneyStatus button").click()
    return shown.page.locator(".jp-tpu-StatusPopup")


def question(shown: Shown) -> Locator:
    shown.with_node()
    shown.execute("tpu:delete-node", zone=SPEC["zone"], node_id="my-node")
    return shown.page.locator(".jp-Dialog-content")


def launcher(shown: Shown) -> Locator:
    shown.with_node()
    shown.execute("launcher:create")
    return shown.page.locator(".jp-Launcher-section:visible", has_text="my-node").first


def ends_at(demo: Demo) -> float:
    """When the session of the node ends; 0 if it goes on."""
    return float(demo.ask("jupyter-tpu/v1/autostop")["nodes"][0]["ends_at"] or 0)


def warning_of_a_notebook(shown: Shown) -> Locator:
    """Its node ends in minutes."""
    shown.with_node()
    node = {"zone": SPEC["zone"], "node_id": "my-node"}
    shown.execute("tpu:open-notebook", **node)
    shown.page.wait_for_function("() => window.jupyterapp.shell.currentWidget.sessionContext?.session?.kernel")
    shown.execute("tpu:set-brakes", idle_after_s=None, session_s=DAY_S, **node)
    until(lambda: ends_at(shown.demo) > time.time() + DAY_S / 2, "the session of the node has not begun")
    shown.execute("tpu:set-brakes", session_s=time.time() - (ends_at(shown.demo) - DAY_S) + 500, **node)
    return shown.page.locator(".jp-tpu-LineAbove-line:visible")


SCREENS: list[Callable[[Shown], Locator]] = [
    *(first_steps, empty_panel, create_form, closed_card, opened_card, money, set_up),
    *(launcher, failure_simulator, status, question, warning_of_a_notebook, booting_card),
]


@pytest.mark.parametrize("screen", mostly_nightly(SCREENS, count=5), ids=lambda screen: screen.__name__)
def test_a_screen_fits_and_everybody_can_use_it(
    shown: Shown, screen: Callable[[Shown], Locator], picture: Picture
) -> None:
    root = screen(shown)

    expect(root).to_be_visible()
    picture(shown.page, f"screen-{screen.__name__}-{shown.look.name}")
    assert shown.page.locator("#jupyter-tpu-panel").evaluate("node => node.clientWidth") <= NARROW_PX
    assert root.evaluate(CUT) == []
    assert root.evaluate(VIOLATIONS) == []


@pytest.mark.nightly
def test_nothing_covers_what_the_keyboard_reaches(shown: Shown) -> None:
    sections = money(shown)
    keyboard, header = shown.page.keyboard, shown.panel().locator(".jp-tpu-Header")
    sections.locator("button").last.focus()
    keyboard.press("Shift+Tab")
    covered: list[str] = []
    for _ in range(60):
        if header.locator(":focus").count():
            break
        covered += filter(None, [shown.page.evaluate(COVERED)])
        keyboard.press("Shift+Tab")
    assert covered == []


@pytest.fixture(autouse=True)
def _closed_afterwards(shown: Shown) -> Iterator[None]:
    yield
    shown.cloud.resume()
    for _ in range(2):
        shown.page.keyboard.press("Escape")
