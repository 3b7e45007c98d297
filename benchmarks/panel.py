"""Measure how much CPU time the load of a large slice costs a page: ``python -m benchmarks.panel`` (see README.md).

JupyterLab, its server and the browser are real, but the node is not: the server extension's responses are replaced in
the browser, so that only the page is measured.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Browser, Page, Route, sync_playwright

from benchmarks.panel_answers import NODE, metrics, node_list

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
PANEL = '.jp-SideBar [data-id="jupyter-tpu-panel"]'
TASK_EVENTS = "disabled-by-default-devtools.timeline"
TASKS = """() => {
  window.longTasks = [];
  new PerformanceObserver(list => window.longTasks.push(...list.getEntries().map(one => one.duration)))
    .observe({ type: 'longtask' });
}"""


@dataclass
class Answers:
    """The responses that replace the server extension's; `asked` counts the requests."""

    workers: int
    seconds: list[str] = field(default_factory=list)
    asked: int = 0

    def prepare(self) -> None:
        """Create the responses before the measurement, so that this takes no time from the page."""
        self.seconds = [metrics(self.workers, second) for second in range(30)]

    def metrics(self, route: Route) -> None:
        points = int(parse_qs(urlsplit(route.request.url).query).get("points", ["0"])[0])
        body = metrics(self.workers, self.asked, points) if points else self.seconds[self.asked % len(self.seconds)]
        self.asked += 1
        route.fulfill(body=re.sub(r'"as_of": [\d.]+', f'"as_of": {time.time()}', body), content_type="application/json")


@dataclass
class Meter:
    """A meter of the page's CPU time: of its main thread by task, and of its process with all threads."""

    page: Page
    chromium: Browser

    def __post_init__(self) -> None:
        self.browser = self.chromium.new_browser_cdp_session()
        self.session = self.page.context.new_cdp_session(self.page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def measure(self, act: Callable[[], object], seconds: float) -> dict[str, float]:
        """Return the CPU use in percent of a core, during a user action and for `seconds` afterwards."""
        self.page.evaluate("() => { window.longTasks = []; }")
        self.chromium.start_tracing(categories=[TASK_EVENTS])
        before, cpu, start = self._numbers(), self._cpu_s(), time.monotonic()
        act()
        self.page.wait_for_timeout(seconds * 1000)
        after, took = self._numbers(), time.monotonic() - start
        numbers = {
            name: 100 * (after[name] - before[name]) / took
            for name in ("TaskDuration", "ScriptDuration", "RecalcStyleDuration", "LayoutDuration")
        }
        cpu_share = 100 * (self._cpu_s() - cpu) / took
        tasks = [float(task) for task in self.page.evaluate("() => window.longTasks")]
        return {
            **numbers,
            "process": cpu_share,
            "long_tasks": len(tasks),
            "longest_ms": max(tasks, default=0.0),
            "longest_cpu_ms": self._longest_cpu_ms(),
        }

    def _numbers(self) -> dict[str, float]:
        return {one["name"]: one["value"] for one in self.session.send("Performance.getMetrics")["metrics"]}

    def _longest_cpu_ms(self) -> float:
        """Return the longest CPU time of a task in a page's main thread.

        On a busy machine, a task's duration is mostly waiting, so only its CPU time counts.
        """
        events = json.loads(self.chromium.stop_tracing())["traceEvents"]
        main = {
            (one["pid"], one["tid"])
            for one in events
            if one["name"] == "thread_name" and one["args"].get("name") == "CrRendererMain"
        }
        own = [one for one in events if one["name"] == "RunTask" and (one["pid"], one["tid"]) in main]
        return max((one.get("tdur", 0) / 1000 for one in own), default=0.0)

    def _cpu_s(self) -> float:
        """Return the CPU time of the busiest renderer process, which belongs to the page."""
        processes = self.browser.send("SystemInfo.getProcessInfo")["processInfo"]
        return max(float(one["cpuTime"]) for one in processes if one["type"] == "renderer")


def main() -> None:
    options = _parser().parse_args()
    answers = Answers(options.workers)
    answers.prepare()
    with lab() as url, chromium(options.chromium) as browser:
        page = _opened(browser, url, answers)
        meter = Meter(page, browser)
        _print(f"{options.workers} workers, 8 cores each; {len(answers.seconds[0]) // 1024} KiB an answer")
        for name, act in _views(page):
            asked, start = answers.asked, time.monotonic()
            numbers = meter.measure(act, options.seconds)
            rate = (answers.asked - asked) / (time.monotonic() - start)
            _print(_line(name, numbers, rate))


def _views(page: Page) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the name of each view, and the action that opens it."""
    panel = page.locator("#jupyter-tpu-panel")
    load = panel.get_by_role("region", name=f"Load of {NODE['node_id']}")
    yield "closed", lambda: None
    yield "open, a line for each worker", load.get_by_role("button").first.click
    yield "all workers open", load.get_by_role("button", name="Expand all workers").click
    yield "panel hidden", page.locator(PANEL).click


def _line(name: str, numbers: dict[str, float], rate: float) -> str:
    shares = ", ".join(
        f"{word} {numbers[key]:.1f} %"
        for word, key in (
            ("page", "process"),
            ("main thread", "TaskDuration"),
            ("script", "ScriptDuration"),
            ("style", "RecalcStyleDuration"),
            ("layout", "LayoutDuration"),
        )
    )
    tasks = (
        f"{numbers['long_tasks']:.0f} long tasks (longest {numbers['longest_ms']:.0f} ms),"
        f" most CPU time in one task {numbers['longest_cpu_ms']:.0f} ms"
    )
    return f"{name}: {shares} of a core; {tasks}; {rate:.2f} requests a second"


def _opened(browser: Browser, url: str, answers: Answers) -> Page:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(60_000)
    page.route(re.compile(r"/jupyter-tpu/v1/nodes\?"), lambda route: route.fulfill(json=node_list(answers.workers)))
    page.route(re.compile(r"/jupyter-tpu/v1/nodes/.*/metrics\?"), answers.metrics)
    page.goto(f"{url}&reset")
    page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
    page.wait_for_selector("#jupyterlab-splash", state="detached")
    page.evaluate(TASKS)
    page.locator(PANEL).click()
    page.get_by_role("region", name=f"Load of {NODE['node_id']}").wait_for()
    return page


@contextmanager
def lab(*arguments: str) -> Iterator[str]:
    """Run a JupyterLab with the emulated cloud, which has no nodes, and yield its address.

    Args:
        arguments: additional arguments of `jupyter lab`.
    """
    with tempfile.TemporaryDirectory(prefix="jt-bench-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", "jupyter_tpu.cli", "demo", "--no-browser", "--dir", f"{folder}/demo"]
        with (Path(folder) / "printed").open("w+") as printed:
            server = subprocess.Popen(
                [*command, "--", "--expose-app-in-browser", *arguments], stdout=printed, stderr=subprocess.STDOUT
            )
            try:
                yield _address(Path(printed.name), server)
            finally:
                server.terminate()
                server.wait(timeout=60)


def _address(printed: Path, server: subprocess.Popen[bytes]) -> str:
    while server.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:\d+/lab\S*token=\w+", printed.read_text())
        if found:
            return found[0]
        time.sleep(0.2)
    raise RuntimeError("The demo ended:\n" + printed.read_text())


@contextmanager
def chromium(path: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.panel", description=__doc__)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60, help="of each view")
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="the browser")
    return parser


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
