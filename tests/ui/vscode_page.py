"""A notebook as VS Code shows it, in a page of another origin than the Jupyter server's; see vscode/page.js."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, Locator, Page, Route

HERE = Path(__file__).parent / "vscode"
PACKAGES = HERE / "node_modules"

FIND_SCRIPTS = """
import glob, os
from jupyter_core.paths import jupyter_path
for folder in jupyter_path("nbextensions"):
    print(*(os.path.relpath(path, folder) for path in glob.glob(os.path.join(folder, "*", "extension.js"))))
"""

# Of VS Code's two usual themes, what widgets use.
THEMES = {
    "light": {
        "editor-background": "#ffffff",
        "editor-foreground": "#3b3b3b",
        "descriptionForeground": "#3b3b3b",
        "panel-border": "#e5e5e5",
        "editorWidget-background": "#f8f8f8",
        "scrollbarSlider-background": "#64646466",
        "charts-blue": "#1a85ff",
        "charts-green": "#388a34",
        "charts-orange": "#d18616",
    },
    "dark": {
        "editor-background": "#1f1f1f",
        "editor-foreground": "#cccccc",
        "descriptionForeground": "#9d9d9d",
        "panel-border": "#2b2b2b",
        "editorWidget-background": "#202020",
        "scrollbarSlider-background": "#79797966",
        "charts-blue": "#3794ff",
        "charts-green": "#89d185",
        "charts-orange": "#d18616",
    },
}
FONT = {"font-family": "system-ui, 'DejaVu Sans', sans-serif", "font-size": "13px"}


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing of requests."""


@contextmanager
def serve_page(folder: Path) -> Iterator[str]:
    """The address of a page that is put together in `folder`."""
    shutil.copy(HERE / "index.html", folder)
    shutil.copy(PACKAGES / "requirejs" / "require.js", folder)
    shutil.copy(PACKAGES / "@vscode" / "jupyter-ipywidgets8" / "dist" / "ipywidgets.js", folder)
    subprocess.run(["node", HERE / "bundle.cjs", folder], check=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@dataclass
class VsCode:
    """A window of VS Code that is connected to a Jupyter server by its address and token."""

    page: Page
    base_url: str
    token: str

    def __post_init__(self) -> None:
        self.page.route(f"{self.base_url}/api/**", _ask_from_outside)

    def open(self, path: str, kernel_name: str) -> None:
        """Open a notebook; its kernel is started, or taken up where one runs."""
        options = {"baseUrl": f"{self.base_url}/", "token": self.token, "path": path, "kernelName": kernel_name}
        self.page.evaluate("options => window.notebook.open(options)", options)

    def find_scripts(self) -> None:
        """Ask the kernel which packages bring front ends for widgets, and the server where in these they are."""
        names = self.ask(FIND_SCRIPTS).split()
        scripts = {name: url for each in names for name, url in script_addresses(self.base_url, each).items()}
        self.page.evaluate("scripts => { window.notebook.scripts = scripts; }", scripts)

    def ask(self, code: str) -> str:
        """Run code that no cell shows; returns what it printed."""
        return str(self.page.evaluate("code => window.notebook.ask(code)", code))

    def run(self, code: str) -> Locator:
        """Run a cell. Answers its place at once."""
        cell = self.page.evaluate("code => window.notebook.run(code)", code)
        return self.page.locator(f"#{cell} > .output")

    def outputs(self, cell: Locator) -> list[Any]:
        """What a cell has put out, in all its forms, as a notebook file keeps them."""
        return [place.evaluate("place => place.data") for place in cell.all()]

    def show(self, code: str, outputs: list[Any]) -> Locator:
        """A cell of the notebook's file, with what it had put out."""
        cell = self.page.evaluate("([code, outputs]) => window.notebook.show(code, outputs)", [code, outputs])
        return self.page.locator(f"#{cell} > .output")

    def use_theme(self, name: str) -> None:
        colours = {**FONT, **THEMES[name]}
        style = ";".join(f"--vscode-{key}:{value}" for key, value in colours.items())
        self.page.evaluate("style => document.documentElement.setAttribute('style', style)", style)


def _ask_from_outside(route: Route) -> None:
    """VS Code asks the server's REST routes from a process of its own, which is of no origin."""
    try:
        answer = route.fetch()
    except Error:
        route.abort()
    else:
        route.fulfill(response=answer, headers={**answer.headers, "access-control-allow-origin": "*"})


def script_addresses(base_url: str, extension: str) -> dict[str, str]:
    """Where the front ends are that a package says it has; asked without a token, as VS Code does.

    Args:
        extension: such as ``anywidget/extension.js``.
    """
    with urllib.request.urlopen(f"{base_url}/nbextensions/{extension}", timeout=120) as answer:
        found = re.findall(r"""["']?([\w@/-]+)["']?: ["'](nbextensions/[\w@/-]+)["']""", answer.read().decode())
    return {name: f"{base_url}/{path}" for name, path in found}
