"""However a node ends, each of its notebooks says so once: what happened, when and why, and what to do."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from open_notebooks import CURRENT, IS_OPEN, KERNEL, Notebook, execute, until, write
from playwright.sync_api import Locator, Page, expect

from jupyter_tpu.emulator.control.client import EmulatorControl

if TYPE_CHECKING:
    from running_demo import Demo

    from conftest import OpenLab, Picture

pytestmark = [pytest.mark.system("chromium")]

ZONE = "us-central1-a"
SPEC = {
    "zone": ZONE,
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
}
CLOCK = r"\d\d?:\d\d(?:\s[AP]M)?"
# Everything that ever appeared over the page or in red, even for a moment.
WATCH = """() => {
  window.seen = [];
  new MutationObserver(changes => {
    for (const {addedNodes} of changes) {
      for (const node of addedNodes) {
        const found = node.matches?.('.jp-Dialog, .Toastify__toast')
          ? node : node.querySelector?.('.jp-Dialog, .Toastify__toast');
        if (found) window.seen.push(`${found.className}: ${found.textContent}`);
      }
    }
  }).observe(document, {childList: true, subtree: true});
}"""
LINES = ".jp-tpu-LineAbove-line"
# What an ended kernel may not leave in a notebook: text in its cells, and notices in its toolbar.
RED = "[data-mime-type$='stderr'], [data-mime-type$='.error'], .jp-tpu-KernelStatus span"
STATUS_BAR = "#jp-bottom-panel"
STATUS = f"() => ({CURRENT}).sessionContext.kernelDisplayStatus"


@dataclass(frozen=True)
class Cause:
    """How to end a node, and the line about it; `{node}` is its id."""

    end: Callable[[Demo, EmulatorControl, str], Any]
    line: str
    button: str
    is_spot: bool = False


def _node(node_id: str, route: str = "") -> str:
    return f"jupyter-tpu/v1/nodes/{ZONE}/{node_id}{route}"


def _full(node_id: str) -> str:
    return f"projects/demo-project/locations/{ZONE}/nodes/{node_id}"


CAUSES = {
    "stop": Cause(
        lambda demo, _, node: demo.ask(_node(node, "/stop"), "POST"), f"You stopped {{node}} at {CLOCK}.", "Start node"
    ),
    "delete": Cause(
        lambda demo, _, node: demo.ask(_node(node), "DELETE"), f"You deleted {{node}} at {CLOCK}.", "Recreate node…"
    ),
    "idle": Cause(
        lambda demo, _, node: demo.ask(_node(node, "/autostop"), "PUT", {"idle_after_s": 5}),
        f"{{node}} was stopped at {CLOCK}: idle for 5 s.",
        "Start node",
    ),
    "session": Cause(
        lambda demo, _, node: demo.ask(_node(node, "/autostop"), "PUT", {"session_s": 10}),
        f"{{node}} was stopped at {CLOCK}: maximum session length of 10 s reached.",
        "Start node",
    ),
    "budget": Cause(
        lambda demo, _, node: demo.ask(
            "jupyter-tpu/v1/budgets/daily", "PUT", {"amount": 0.01, "unit": "usd", "period": "day"}
        ),
        rf"{{node}} was stopped at {CLOCK}: budget daily is used up \((up to )?\$\d+\.\d\d of \$0\.01 today\).",
        "Start node",
    ),
    "stop-everything": Cause(
        lambda demo, _, node: demo.ask("jupyter-tpu/v1/stop-all", "POST"),
        f"{{node}} was stopped at {CLOCK}: you stopped everything.",
        "Start node",
    ),
    "pre-emption": Cause(
        lambda _, control, node: control.preempt(_full(node)),
        f"{{node}} was pre-empted at {CLOCK}: the cloud needed the machine.",
        "Recreate node…",
        is_spot=True,
    ),
}


def ready_node(demo: Demo, node_id: str, **options: Any) -> str:
    """Create a node and return its kernelspec when it is READY."""
    demo.ask("jupyter-tpu/v1/nodes", "POST", {**SPEC, "node_id": node_id, "spot": False, **options})

    def found() -> str:
        nodes = demo.ask("jupyter-tpu/v1/nodes")["nodes"]
        return next((each["kernelspec"] for each in nodes if each["node_id"] == node_id and each["kernelspec"]), "")

    until(found, f"{node_id} is not READY")
    return found()


@pytest.fixture
def control(demo: Demo) -> EmulatorControl:
    return EmulatorControl(demo.ledger_url.split("/emulator/")[0])


@pytest.fixture(autouse=True)
def no_budget(demo: Demo) -> Iterator[None]:
    yield
    for budget in demo.ask("jupyter-tpu/v1/spend")["budgets"]:
        demo.ask(f"jupyter-tpu/v1/budgets/{budget['name']}", "DELETE")


def opened(demo: Demo, page: Page, kernel_name: str, gates: Path, names: list[str], *sources: str) -> list[Notebook]:
    """Open notebooks on a node; each has run its first cell, and runs the second if it has one."""
    notebooks = [Notebook(demo, f"{name}.ipynb", gates / name) for name in names]
    for notebook in notebooks:
        notebook.gates.mkdir()
        write(notebook, kernel_name, ("x = 1", *sources), minor=5)
        notebook.open_in(page)
        page.wait_for_function(f"() => {KERNEL}?.status === 'idle'")
        execute(page, "notebook:run-all-cells")
        if sources:
            notebook.has_reached("a")
        else:
            page.wait_for_function(f"() => {KERNEL}?.status === 'idle'")
    return notebooks


def panels(page: Page) -> list[Locator]:
    return page.locator(".jp-NotebookPanel").all()


def activate(page: Page, notebook: Notebook) -> None:
    notebook.open_in(page)


def check_voice(page: Page, notebooks: list[Notebook], line: str, button: str | None) -> None:
    """Each notebook has the one line, and nothing else says anything."""
    for notebook in notebooks:
        activate(page, notebook)
        shown = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        expect(shown.locator(LINES)).to_contain_text(re.compile(line))
        expect(shown.locator(LINES)).to_have_count(1)
        page.wait_for_function(
            f"() => !['idle', 'busy', 'initializing', 'connecting', 'restarting'].includes(({STATUS})())"
        )
        if button:
            expect(shown.get_by_role("button", name=button)).to_be_visible()
            expect(shown.get_by_role("button", name="Choose kernel…")).to_be_visible()
        assert shown.locator(RED).all_inner_texts() == []
        expect(shown.locator(".jp-CodeCell .jp-InputPrompt", has_text="[*]:")).to_have_count(0)
        expect(page.locator(STATUS_BAR)).not_to_contain_text(
            re.compile("Initializing|Idle|Busy|Reconnecting|Restarting")
        )
    assert page.evaluate("window.seen") == []


@pytest.mark.parametrize(
    "name",
    [name if name == "stop" else pytest.param(name, marks=pytest.mark.nightly) for name in CAUSES],
)
def test_the_end_of_a_node_is_said_once_in_each_notebook(
    name: str, demo: Demo, control: EmulatorControl, open_lab: OpenLab, tmp_path: Path, picture: Picture
) -> None:
    cause, node = CAUSES[name], f"node-{name}"
    kernel_name = ready_node(demo, node, spot=cause.is_spot)
    page = open_lab()
    # a cell that runs would keep the node from being idle
    running = () if name == "idle" else ("pass_gate('a')",)
    notebooks = opened(demo, page, kernel_name, tmp_path, [f"{name}-{count}" for count in range(3)], *running)
    page.evaluate(WATCH)

    cause.end(demo, control, node)
    check_voice(page, notebooks, cause.line.format(node=node), cause.button)
    picture(page, f"end-of-a-node-{name}")
    time.sleep(5)  # what comes later would be a second message
    check_voice(page, notebooks, cause.line.format(node=node), cause.button)


@pytest.mark.nightly
def test_the_line_is_there_again_after_a_reload_and_no_kernel_is_asked_for(
    demo: Demo, open_lab: OpenLab, tmp_path: Path, picture: Picture
) -> None:
    node = "node-reloaded"
    kernel_name = ready_node(demo, node)
    page = open_lab()
    notebooks = opened(demo, page, kernel_name, tmp_path, ["reloaded"], "pass_gate('a')")
    line, way = f"You deleted {node} at {CLOCK}.", "Recreate node…"
    demo.ask(_node(node), "DELETE")
    expect(page.locator(LINES)).to_contain_text(re.compile(line))
    # off every list: its kernelspec, and the session that would give the notebook its kernel
    until(lambda: not demo.ask("api/sessions"), "the session is still listed")
    until(lambda: kernel_name not in demo.ask("api/kernelspecs")["kernelspecs"], "the kernelspec is still listed")
    execute(page, "docmanager:save")
    page.wait_for_function(f"() => !{CURRENT}.context.model.dirty")

    page.add_init_script(f"({WATCH})()")
    page.reload()
    page.wait_for_function(IS_OPEN)
    page.wait_for_selector("#jupyterlab-splash", state="detached")
    check_voice(page, notebooks, line, way)
    for theme in ("Dark", "Light"):
        page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", f"JupyterLab {theme}"
        )
        picture(page, f"end-of-a-node-reloaded-{theme}")
    check_voice(page, notebooks, line, way)

    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator(LINES)).to_have_count(0)


@contextmanager
def slow_cloud(control: EmulatorControl) -> Iterator[None]:
    """A node takes so long to create that what is shown meanwhile is seen, however slow this machine is."""
    scale = control.clock()["scale"]
    control.set_time_scale(scale / 10)
    try:
        yield
    finally:
        control.set_time_scale(scale)


@pytest.mark.nightly
def test_auto_recovery_counts_in_the_line_and_gives_the_kernel_back(
    demo: Demo, control: EmulatorControl, open_lab: OpenLab, tmp_path: Path, picture: Picture
) -> None:
    node = "node-recovered"
    kernel_name = ready_node(demo, node, spot=True)
    demo.ask(_node(node, "/recovery"), "PUT", {"is_on": True})
    page = open_lab()
    notebooks = opened(
        demo, page, kernel_name, tmp_path, [f"recovered-{count}" for count in range(3)], "pass_gate('a')"
    )
    page.evaluate(WATCH)

    control.preempt(_full(node))
    line = rf"{node} pre-empted at {CLOCK} · recreating \(attempt 1 of 3\) · \d+:\d\d"
    shown = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    with slow_cloud(control):
        expect(shown.locator(LINES)).to_contain_text(re.compile(line))
        expect(shown.locator(LINES)).to_have_count(1)
        page.wait_for_function(f"() => ({STATUS})() === 'starting'")
        picture(page, "end-of-a-node-recreating")
    rerun = shown.get_by_role("button", name="Rerun lost cells…")
    for notebook in notebooks:
        activate(page, notebook)
        expect(rerun).to_be_enabled()
        expect(shown.locator(LINES)).to_have_count(1)
        page.wait_for_function(f"() => ({STATUS})() === 'idle'")
        expect(page.locator(STATUS_BAR)).to_contain_text("Idle")
    picture(page, "end-of-a-node-recreated")
    shown.get_by_role("button", name="Dismiss").click()
    expect(shown.locator(LINES)).to_have_count(0)
    page.evaluate(f"() => {{ {CURRENT}.content.activeCellIndex = 1; }}")
    execute(page, "notebook:run-cell")
    expect(shown.locator(".jp-CodeCell .jp-InputPrompt").nth(1)).to_have_text("[1]:")
    assert shown.locator(RED).all_inner_texts() == []
    assert page.evaluate("window.seen") == []
