"""Take the pictures of the documentation from the running demo, in the light and the dark theme.

Run by ``make screenshots``, which needs Chromium; look at docs/images/ afterwards. The scenes are the same each time,
and so is the load of the chips; two runs differ in clock times and costs.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat
from open_notebooks import IS_OPEN
from playwright.sync_api import Page, expect, sync_playwright
from running_demo import SPEC, Demo, start_demo, stop_demo
from vscode_page import VsCode, serve_page
from widget_pages import SHOW, first_chip

from jupyter_tpu.emulator.control.client import EmulatorControl

IMAGES = Path(__file__).parent / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb"]
SIZE = {"width": 1280, "height": 800}
WAIT_MS = 240_000  # training takes minutes on a loaded machine
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
EXECUTE = "([id, args]) => void window.jupyterapp.commands.execute(id, args)"  # that of a cell ends with the cell
HAS_PICTURES = "() => [...document.images].every(image => image.complete)"
IS_IDLE = "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
LOAD = {
    "duty_percent": [83, 91, 88, 79, 85, 90, 81, 87],
    "memory_percent": [41, 43, 42, 42, 41, 44, 43, 42],
}
SLICE = {**SPEC, "node_id": "slice-node", "accelerator_type": "v5litepod-16"}
SPOT = {**SPEC, "node_id": "spot-node", "spot": True}
VSCODE = {**SPEC, "node_id": "vscode-node"}
ON_ALL_WORKERS = [
    "%tpu_init jax",
    "import jax\nprint(jax.device_count(), 'devices of', jax.process_count(), 'workers')",
    "files = [f'part-{number:02}.npz' for number in range(8)]\n"
    "mine = files[jax.process_index() :: jax.process_count()]\n"
    "print('read', *mine)",
    "if jax.process_index() == 2:\n    raise FileNotFoundError(mine[1])",
]
TRAINING = ["%tpu_init", "for epoch in range(3):\n    print('epoch', epoch)", "import time\ntime.sleep(3600)"]


@dataclass
class Scene:
    """JupyterLab in a browser, and the cloud behind it."""

    page: Page
    demo: Demo
    cloud: EmulatorControl

    def start(self) -> None:
        """Open JupyterLab as on a first visit."""
        self.page.goto(f"{self.demo.url}&reset")
        self.page.wait_for_function(IS_OPEN)
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")

    def execute(self, command: str, **args: object) -> None:
        """Run a command of JupyterLab: buttons move, commands stay."""
        self.page.evaluate(EXECUTE, [command, args])

    def panel(self) -> None:
        self.execute("tpu:open-panel")
        expect(self.page.locator("#jupyter-tpu-panel")).to_be_visible()

    def open_notebook(self, path: str, kernel: str) -> None:
        self.execute("docmanager:open", path=path, factory="Notebook", kernel={"name": kernel})
        self.page.wait_for_function(IS_IDLE)

    def write_notebook(self, path: str, kernel: str, sources: list[str]) -> None:
        """Write a notebook for a new kernelspec, and open JupyterLab again, which then lists that."""
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        metadata = {"kernelspec": {"name": kernel, "display_name": kernel}}
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), self.demo.notebooks / path)
        self.start()

    def take(self, name: str) -> None:
        """Keep the page as it is, in each theme."""
        for theme, title in THEMES.items():
            self.execute("apputils:change-theme", theme=title)
            expect(self.page.locator("body")).to_have_attribute("data-jp-theme-light", str(theme == "light").lower())
            self.page.mouse.move(640, 1)
            self.page.wait_for_function(HAS_PICTURES)
            self.page.wait_for_timeout(500)  # plots are drawn again
            self.page.screenshot(path=IMAGES / f"{name}-{theme}.png", animations="disabled", caret="hide")
        self.execute("apputils:change-theme", theme=THEMES["light"])


def create(scene: Scene) -> None:
    """The form for a new node."""
    scene.panel()
    scene.execute("tpu:open-form")
    expect(scene.page.locator("#jupyter-tpu-panel")).to_contain_text("$9.60")
    scene.take("create")


def panel(scene: Scene) -> None:
    """A trained notebook beside its node."""
    scene.open_notebook("digits.ipynb", scene.demo.create_node())
    scene.execute("notebook:run-all-cells")
    trained = scene.page.get_by_text(re.compile(r"test accuracy.*9\d\.\d", re.I)).last
    expect(trained).to_be_visible(timeout=WAIT_MS)
    scene.cloud.set_metrics(str(SPEC["node_id"]), **LOAD)
    scene.panel()
    scene.page.wait_for_timeout(12_000)  # the next samples of the chips
    scene.page.locator(".jp-NotebookPanel .jp-OutputArea img").last.scroll_into_view_if_needed()
    scene.execute("docmanager:save")
    scene.take("panel")


def all_workers(scene: Scene) -> None:
    """Cells of a slice: the same on all workers, different, and failed on one."""
    kernel = scene.demo.create_node(SLICE)
    scene.write_notebook("slice.ipynb", kernel, ON_ALL_WORKERS)
    scene.open_notebook("slice.ipynb", kernel)
    scene.execute("notebook:run-all-cells")
    error = scene.page.get_by_text("FileNotFoundError: part-06.npz (worker 2)")
    expect(error).to_be_visible(timeout=WAIT_MS)
    scene.page.locator(".jp-OutputArea-output summary").first.click()
    scene.page.locator(".jp-CodeCell").nth(1).evaluate("cell => cell.scrollIntoView()")
    scene.execute("docmanager:save")
    scene.take("all-workers")


def pre_empted(scene: Scene) -> None:
    """What a notebook says after its spot node was taken away."""
    kernel = scene.demo.create_node(SPOT)
    scene.write_notebook("train.ipynb", kernel, TRAINING)
    scene.open_notebook("train.ipynb", kernel)
    scene.execute("notebook:run-all-cells")
    expect(scene.page.get_by_text("epoch 2").first).to_be_visible()
    scene.page.wait_for_timeout(5_000)  # the last cell runs
    scene.cloud.preempt(str(SPOT["node_id"]))
    notice = scene.page.get_by_text(re.compile("pre-empted|reclaimed", re.I)).filter(visible=True).first
    expect(notice).to_be_visible(timeout=WAIT_MS)
    scene.page.wait_for_timeout(5_000)  # all that the end changes has changed
    scene.take("pre-empted")


def vscode(scene: Scene) -> None:
    """Cells and widgets, drawn by VS Code's own widget manager."""
    kernel = scene.demo.create_node(VSCODE)
    with tempfile.TemporaryDirectory(prefix="shots-") as folder, serve_page(Path(folder)) as url:
        scene.page.goto(url)
        scene.page.wait_for_selector("body[data-ready]", state="attached")
        scene.page.set_viewport_size({"width": 820, "height": 640})
        window = VsCode(scene.page, scene.demo.base_url, scene.demo.token)
        window.open("vscode.ipynb", kernel)
        window.find_scripts()
        window.ask(SHOW)
        scene.cloud.set_metrics(str(VSCODE["node_id"]), **LOAD)
        expect(window.run("%tpu_init jax").locator("strong").first).to_contain_text("JAX is ready")
        window.run("TpuMonitor()")
        expect(first_chip(scene.page)).to_contain_text("83")
        for theme in THEMES:
            window.use_theme(theme)
            scene.page.wait_for_timeout(500)  # plots are drawn again
            scene.page.screenshot(path=IMAGES / f"vscode-{theme}.png", animations="disabled", caret="hide")
        scene.page.set_viewport_size(SIZE)


SCENES: tuple[Callable[[Scene], None], ...] = (create, panel, all_workers, pre_empted, vscode)


def take_all(chromium: str, names: list[str]) -> None:
    """Start the demo and a browser, and take the named pictures in turn, or all."""
    with tempfile.TemporaryDirectory(prefix="shots-") as folder, sync_playwright() as playwright:
        demo = start_demo(Path(folder))
        try:
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            page = browser.new_page(viewport=SIZE, reduced_motion="reduce")
            page.set_default_timeout(WAIT_MS)
            expect.set_options(timeout=WAIT_MS)
            scene = Scene(page, demo, EmulatorControl(demo.ledger_url.partition("/emulator/")[0]))
            for take in [each for each in SCENES if not names or each.__name__ in names]:
                scene.start()
                take(scene)
            browser.close()
        finally:
            stop_demo(demo)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="the browser")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(each.__name__ for each in SCENES)} (default: all)")
    options = parser.parse_args()
    take_all(options.chromium, options.names)
