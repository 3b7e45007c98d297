"""Measure what the extension adds to the start of a server and of a page.

Run ``python -m benchmarks.weight``; see README.md.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from jupyter_core.paths import jupyter_path
from playwright.sync_api import BrowserContext

from benchmarks.panel import chromium, lab

OURS = "jupyter-tpu"
IMPORT = """
import time
import jupyter_server.serverapp, jupyter_server.extension.application
import jupyter_server.services.kernels.handlers, jupyter_server.services.sessions.handlers
began = time.process_time()
import jupyter_tpu.server.app
print(time.process_time() - began)
"""
# A page is interactive when its layout is restored and it has no more urgent work than the user's input.
INTERACTIVE = """() => window.jupyterapp?.restored.then(
  () => new Promise(resolve => requestIdleCallback(() => resolve(performance.now()))))"""
SIDES = ("without", "with")

Numbers = Mapping[str, list[float]]


def main() -> None:
    options = _parser().parse_args()
    cpu_s = [_import_cpu_s() for _ in range(options.repeats)]
    _print(f"import of the server extension: {median(cpu_s):.3f} s of CPU (least {min(cpu_s):.3f})")
    with ExitStack() as stack:
        browser = stack.enter_context(chromium(options.chromium))
        arguments = {"without": stack.enter_context(_without_ours()), "with": ()}
        pages = {side: (browser.new_context(), stack.enter_context(lab(*arguments[side]))) for side in SIDES}
        for side in SIDES:  # fill the browser's cache before measuring
            _open(*pages[side])
        seconds: Numbers = {side: [] for side in SIDES}
        cpu: Numbers = {side: [] for side in SIDES}
        for repeat in range(options.repeats):
            for side in SIDES[:: -1 if repeat % 2 else 1]:  # alternate the order of the two sides
                took_s, used_s = _open(*pages[side])
                seconds[side].append(took_s)
                cpu[side].append(used_s)
    _print(_line("time to interactive", seconds))
    _print(_line("CPU of the page until then", cpu))


def _line(name: str, numbers: Numbers) -> str:
    without, ours = (median(numbers[side]) for side in SIDES)
    return f"{name}: {ours:.2f} s with the extension, {without:.2f} s without, ratio {ours / without:.3f}"


def _import_cpu_s() -> float:
    """Return the CPU time of importing the extension, in addition to what every Jupyter server imports."""
    return float(subprocess.run([sys.executable, "-c", IMPORT], check=True, stdout=subprocess.PIPE, text=True).stdout)


def _open(context: BrowserContext, url: str) -> tuple[float, float]:
    """Open JupyterLab; return the seconds until it is interactive, and the main thread's CPU time by then."""
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(f"{url}&reset", wait_until="commit")
    took_ms = page.wait_for_function(INTERACTIVE, timeout=120_000).json_value()
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    page.close()
    return float(took_ms) / 1000, float(metrics["TaskDuration"])


@contextmanager
def _without_ours() -> Iterator[Sequence[str]]:
    """Yield the arguments for a JupyterLab with all extensions except this one."""
    with tempfile.TemporaryDirectory(prefix="jt-weight-") as folder:
        for extension in (each for path in jupyter_path("labextensions") for each in Path(path).glob("*")):
            if extension.name != OURS and not Path(folder, extension.name).exists():
                Path(folder, extension.name).symlink_to(extension)
        # this option overrides the demo's own, so disable ipyparallel's extension here too
        extensions = {"jupyter_tpu": False, "ipyparallel": False}
        yield (f"--LabApp.labextensions_path={folder}", f"--ServerApp.jpserver_extensions={extensions}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.weight", description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="the browser")
    return parser


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
