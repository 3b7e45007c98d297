"""Measure what the extension adds to the start of a server and of a page.

Run ``python -m benchmarks.weight``; see README.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from jupyter_core.paths import jupyter_path
from playwright.sync_api import Browser, BrowserContext

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
  () => new Promise(resolve => requestIdleCallback(() => {
    performance.mark('interactive');
    resolve(performance.now());
  })))"""
MARKS = "blink.user_timing"  # the trace's category of the page's marks, which carry the CPU time of their thread
SIZES = """() => performance.getEntriesByType('resource')
  .filter(({ name, responseEnd }) => name.includes('/jupyter-tpu/')
    && responseEnd <= performance.getEntriesByName('interactive')[0].startTime)
  .map(({ decodedBodySize }) => decodedBodySize)"""
SIDES = ("without", "with")

Numbers = Mapping[str, list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start of JupyterLab in the browser, until it is interactive.

    Attributes:
        s: seconds since the navigation.
        cpu_s: CPU time of the page's main thread.
        sizes: sizes of the files and responses of the extension that the page has received, in bytes.
    """

    s: float
    cpu_s: float
    sizes: Sequence[int]


def main() -> None:
    options = _parser().parse_args()
    cpu_s = [_import_cpu_s() for _ in range(options.repeats)]
    _print(f"import of the server extension: {median(cpu_s):.3f} s of CPU (least {min(cpu_s):.3f})")
    with ExitStack() as stack:
        browser = stack.enter_context(chromium(options.chromium))
        arguments = {"without": stack.enter_context(_without_ours()), "with": ()}
        pages = {side: (browser.new_context(), stack.enter_context(lab(*arguments[side]))) for side in SIDES}
        for side in SIDES:  # fill the browser's cache before measuring
            _open(browser, *pages[side])
        starts: dict[str, list[Start]] = {side: [] for side in SIDES}
        for repeat in range(options.repeats):
            for side in SIDES[:: -1 if repeat % 2 else 1]:  # alternate the order of the two sides
                starts[side].append(_open(browser, *pages[side]))
    _print(_line("time to interactive", {side: [start.s for start in starts[side]] for side in SIDES}))
    _print(_line("CPU of the page until then", {side: [start.cpu_s for start in starts[side]] for side in SIDES}))
    most = max((start.sizes for start in starts["with"]), key=sum)
    _print(f"responses of the extension until then: at most {len(most)} with {sum(most) // 1024} KiB")


def _line(name: str, numbers: Numbers) -> str:
    without, ours = (median(numbers[side]) for side in SIDES)
    return f"{name}: {ours:.2f} s with the extension, {without:.2f} s without, ratio {ours / without:.3f}"


def _import_cpu_s() -> float:
    """Return the CPU time of importing the extension, in addition to what every Jupyter server imports."""
    return float(subprocess.run([sys.executable, "-c", IMPORT], check=True, stdout=subprocess.PIPE, text=True).stdout)


def _open(browser: Browser, context: BrowserContext, url: str) -> Start:
    page = context.new_page()
    page.add_init_script("performance.mark('began')")
    browser.start_tracing(page=page, categories=[MARKS])
    page.goto(f"{url}&reset", wait_until="commit")
    took_ms = page.wait_for_function(INTERACTIVE, timeout=120_000).json_value()
    events = json.loads(browser.stop_tracing())["traceEvents"]
    sizes = page.evaluate(SIZES)
    page.close()
    return Start(s=took_ms / 1000, cpu_s=_cpu_s(events), sizes=sizes)


def _cpu_s(events: Sequence[Mapping[str, Any]]) -> float:
    """Return the CPU time of the page's main thread until it was interactive, from a trace of its marks."""
    end = next(one for one in events if one["name"] == "interactive")
    began = next(one for one in events if one["name"] == "began" and one["pid"] == end["pid"])
    return float(end["tts"] - began["tts"]) / 1_000_000


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
