"""What holds for all tests: nothing is passed over in silence.

A test marked ``@pytest.mark.system("chromium")`` is skipped where that program is missing, with a word on how to get
it; a bare ``@pytest.mark.system`` needs all of `PROGRAMS`. Under continuous integration (``CI=true``) a skipped test is
a failed one, and so is one that is expected to fail without being run. A test marked
``@pytest.mark.optional("gcloud")`` runs where that program happens to be, and may be skipped everywhere else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

NAMESPACES = ("--map-root-user", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
"""Options of unshare: a place with its own network, file systems and processes, where we are root."""


@dataclass(frozen=True)
class SystemProgram:
    """A program of the operating system that some tests drive."""

    find: Callable[[], str | None]
    how_to_get_it: str


def find_sshd() -> str | None:
    return shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")


def find_chromium() -> str | None:
    installed = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return next(filter(None, installed), None) or _chromium_of_playwright()


def _chromium_of_playwright() -> str | None:
    folder = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", Path.home() / ".cache/ms-playwright"))
    return next((str(path) for path in folder.glob("chromium-*/chrome-linux*/chrome")), None)


def find_unshare() -> str | None:
    """Only where this user may make namespaces with it."""
    found = shutil.which("unshare")
    works = found and subprocess.run([found, *NAMESPACES, "true"], capture_output=True, check=False).returncode == 0
    return found if works else None


PROGRAMS = {
    "sshd": SystemProgram(find_sshd, "install the OpenSSH server (Debian, Ubuntu: apt-get install openssh-server)"),
    "chromium": SystemProgram(find_chromium, "install Chromium (Debian: apt-get install chromium)"),
    "unshare": SystemProgram(find_unshare, "use a Linux that lets this user make namespaces, root for example"),
}


OPTIONAL_PROGRAMS = {
    "gcloud": SystemProgram(lambda: shutil.which("gcloud"), "install the Google Cloud CLI (cloud.google.com/sdk)"),
    "google-samples": SystemProgram(
        lambda: os.environ.get("JUPYTER_TPU_GOOGLE_SAMPLES"), "say make conformance GOOGLE_SAMPLES=…/tpu"
    ),
    "skypilot": SystemProgram(lambda: os.environ.get("JUPYTER_TPU_SKYPILOT"), "say make conformance"),
    **{
        name: SystemProgram(
            lambda name=name: os.environ.get(f"JUPYTER_TPU_PYTHON_{name.upper()}"),
            f"name a Python that has IPython and {name} by JUPYTER_TPU_PYTHON_{name.upper()}",
        )
        for name in ("libtpu", "tensorflow", "torch_xla")
    },
}


SLOW_FOLDERS = ("ui", "journeys", "server", "kernels", "link")
"""Folders of tests whose modules take up to two minutes each; no worker may be left alone with one at the end."""
ONE_DEMO = "tests/ui/notebook"
"""A folder whose modules share one running demo, so one worker runs them all."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the modules of each folder over the run, so that tests that compute run beside tests that wait."""
    groups: dict[str, list[str]] = {}
    for item in items:
        of_folder = groups.setdefault(_folder(item.nodeid), [])
        if _group(item.nodeid) not in of_folder:
            of_folder.append(_group(item.nodeid))
    places = {
        group: number / len(of_folder) * (0.8 if folder in SLOW_FOLDERS else 1)
        for folder, of_folder in groups.items()
        for number, group in enumerate(of_folder)
    }
    items.sort(key=lambda item: places[_group(item.nodeid)])


def _folder(nodeid: str) -> str:
    return nodeid.split("/")[1] if nodeid.startswith("tests/") else ""


def _group(nodeid: str) -> str:
    """The tests that one worker runs one after the other: a module, or a folder with something to share."""
    return ONE_DEMO if nodeid.startswith(f"{ONE_DEMO}/") else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return GroupScheduling(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("optional"):
        for name in marker.args:
            _require(OPTIONAL_PROGRAMS[name], name)
    for marker in item.iter_markers("system"):
        for name in marker.args or PROGRAMS:
            _require(PROGRAMS[name], name)


def _require(program: SystemProgram, name: str) -> None:
    if program.find() is None:
        pytest.skip(f"{name} is not installed; to run this test {program.how_to_get_it}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if item.get_closest_marker("optional"):
        return report
    gave_up = call.excinfo is not None and isinstance(call.excinfo.value, pytest.xfail.Exception)
    was_seen_to_fail = hasattr(report, "wasxfail") and not gave_up
    return report if was_seen_to_fail else _without_skips(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _without_skips((yield))


def _without_skips(report: Any) -> Any:
    if report.skipped and os.environ.get("CI") == "true":
        reason = vars(report).pop("wasxfail", None) or report.longrepr[2]
        report.outcome = "failed"
        report.longrepr = f"Skipped, which continuous integration does not allow: {reason}"
    return report


@pytest.fixture
def in_namespaces() -> list[str]:
    """The beginning of a command line; tests that use it are marked ``system("unshare")``."""
    return ["unshare", *NAMESPACES]


@pytest.fixture(scope="session")
def chromium() -> str | None:
    """The path of the browser; tests that use it are marked ``system("chromium")``."""
    return find_chromium()
