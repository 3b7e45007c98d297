"""Play the main journey on the oldest JupyterLab and Notebook that we declare, and on the newest, with one wheel.

    python tests/ui/lab_versions.py          # what `make lab-versions` runs
    python tests/ui/lab_versions.py oldest

Each has an environment of its own in .make, which is made once for each wheel; packages come from the index that pip
is set up for. Needs Chromium.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bounds import build_wheel, run, say, uv
from main_journey import in_jupyterlab, in_notebook
from playwright.sync_api import BrowserContext, expect, sync_playwright

ROOT = Path(__file__).parents[2]
PINS = {"oldest": ("jupyterlab==4.2.0", "notebook==7.2.0"), "newest": ("jupyterlab>=4.2", "notebook>=7.2")}
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
PATIENCE_MS = 90_000
PLUGIN_FAILED = "Plugin 'jupyter-tpu:"
SHOWN = "import jupyterlab, notebook; print('JupyterLab', jupyterlab.__version__, '· Notebook', notebook.__version__)"


def main(kinds: Sequence[str]) -> int:
    expect.set_options(timeout=PATIENCE_MS)
    with tempfile.TemporaryDirectory(prefix="jtpu-lab-") as folder:
        wheel = build_wheel(Path(folder))
        for kind in kinds or PINS:
            python = install(wheel, kind)
            shown = subprocess.run([python, "-c", SHOWN], capture_output=True, text=True, check=True).stdout.strip()
            with demo(python, Path(folder) / kind) as url, browser() as context:
                play(context, url)
            say(f"{kind}: {shown}: the journey passed in both")
    return 0


def install(wheel: Path, kind: str) -> str:
    """Make the environment; return its Python."""
    venv = ROOT / ".make" / f"lab-{kind}"
    python = str(venv / "bin/python")
    run([*uv("venv"), "--allow-existing", "--python", sys.executable, str(venv)], cwd=ROOT, env=None)
    argv = ["install", "--python", python, "--reinstall-package", "jupyter-tpu", f"{wheel}[demo]", *PINS[kind]]
    run([*uv("pip"), *argv], cwd=ROOT, env=None)
    return python


def play(context: BrowserContext, url: str) -> None:
    failed: list[str] = []
    context.on("console", lambda said: failed.append(said.text) if PLUGIN_FAILED in said.text else None)
    page = context.new_page()
    in_jupyterlab(page, url)
    page.close()
    tree = context.new_page()
    in_notebook(tree, context, url.replace("/lab", "/tree", 1))
    assert not failed, failed


@contextmanager
def browser() -> Iterator[BrowserContext]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        context = chromium.new_context(viewport={"width": 1280, "height": 800})
        context.set_default_timeout(PATIENCE_MS)
        yield context
        chromium.close()


@contextmanager
def demo(python: str, folder: Path) -> Iterator[str]:
    """A demo that runs in the environment; the address of its JupyterLab."""
    options = ["--no-browser", "--dir", str(folder)]
    exposed = ["--", "--expose-app-in-browser", "--JupyterNotebookApp.expose_app_in_browser=True"]
    path = f"{Path(python).parent}:/usr/bin:/bin"
    with subprocess.Popen(
        [python, "-m", "jupyter_tpu.cli", "demo", *options, *exposed],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        printed = ""
        for line in process.stdout:
            printed += line
            if found := re.search(r"http://127\.0\.0\.1:\d+/lab\S*token=\w+", printed):
                break
        else:
            raise AssertionError(f"The demo ended:\n{printed}")
        try:
            yield found[0]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
