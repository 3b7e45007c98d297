"""The set-up of `make demo` and `make test` says in a sentence what is missing on a machine."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Machine:
    """A machine on whose PATH there is only what a test puts there, as scripts of sh."""

    folder: Path

    def put(self, **programs: str) -> None:
        for name, script in programs.items():
            program = self.folder / name
            program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            program.chmod(0o755)

    def run(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [str(shutil.which("bash")), str(ROOT / ".ci" / script), *arguments]
        environ = {"PATH": str(self.folder), "HOME": str(self.folder)}
        return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=120)


@pytest.fixture
def machine(tmp_path) -> Machine:
    return Machine(tmp_path)


def test_a_machine_with_an_old_python_hears_which_one_is_needed(machine):
    machine.put(python3='[ "$1" = --version ] && echo Python 3.9.2; exit 1')
    done = machine.run("make-venv", "venv")
    assert done.returncode == 1
    assert "needs Python 3.11 or newer, and found Python 3.9.2" in done.stderr


def test_a_machine_without_the_venv_module_hears_which_package_brings_it(machine):
    machine.put(python3=f'case "$2" in *ensurepip*) exit 1;; esac; exec {sys.executable} "$@"')
    done = machine.run("make-venv", "venv")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert done.returncode == 1
    assert f"apt-get install python{version}-venv" in done.stderr


def test_a_newer_python_than_python3_is_found_by_its_own_name(machine, tmp_path):
    machine.put(python3="exit 1", **{"python3.12": '[ "$2" != venv ] || echo "$0" > "$4"'})
    done = machine.run("make-venv", str(tmp_path / "venv"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "venv").read_text().endswith("python3.12\n")


def test_a_user_who_is_not_root_hears_what_will_be_skipped(machine):
    machine.put(id="echo 1000")
    done = machine.run("system-tools")
    assert done.returncode == 0, done.stderr
    assert "chromium" in done.stdout
    assert "skipped" in done.stdout


SOURCES = ("constraints.txt", "demo-packages.txt", "pyproject.toml")
MORE_SOURCES = (
    *("labextension/package.json", "labextension/yarn.lock"),
    *("labextension/.yarnrc.yml", "labextension/install.json", "labextension/src/index.ts"),
    *(f"tests/ui/vscode/{name}" for name in ("package.json", "yarn.lock", ".yarnrc.yml")),
)
DONE = (
    ".venv/pyvenv.cfg",
    ".make/demo-packages",
    ".make/packages",
    "labextension/node_modules/.yarn-state.yml",
    "jupyter_tpu/labextension/package.json",
    ".make/project",
    "tests/ui/vscode/node_modules/.yarn-state.yml",
)
"""What the set-up leaves, in the order in which it is made."""


@pytest.fixture
def set_up_checkout(tmp_path: Path) -> Path:
    """A checkout whose set-up was done, as far as make can tell."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for age, name in enumerate((*SOURCES, *MORE_SOURCES, *DONE)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (age, age))
    return tmp_path


def plan(checkout: Path, target: str) -> list[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # of `make test`
    command = ["make", "--dry-run", target]
    done = subprocess.run(command, cwd=checkout, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_second_make_demo_starts_the_demo_and_nothing_else(set_up_checkout):
    assert [line.split("--dir")[0].strip() for line in plan(set_up_checkout, "demo")] == ["jupyter tpu demo"]


def test_a_second_make_test_installs_nothing(set_up_checkout):
    planned = "\n".join(plan(set_up_checkout, "test"))
    assert "python -m pytest" in planned
    assert not any(word in planned for word in ("install", "sync", "build:prod", "venv"))


@pytest.mark.parametrize("pins", ["constraints.txt", "demo-packages.txt"])
def test_new_pins_are_installed(set_up_checkout, pins):
    (set_up_checkout / pins).touch()
    assert any("uv pip sync" in line for line in plan(set_up_checkout, "demo"))
    assert any("--requirement constraints.txt" in line for line in plan(set_up_checkout, "environment"))


def test_a_first_make_demo_installs_what_the_demo_needs_and_no_package_of_the_tests(set_up_checkout):
    for name in (".make/demo-packages", ".make/packages"):
        (set_up_checkout / name).unlink()
    planned = "\n".join(plan(set_up_checkout, "demo"))
    assert "--require-hashes --constraints constraints.txt demo-packages.txt" in planned
    assert "--requirement constraints.txt" not in planned


def test_make_test_after_make_demo_adds_the_other_packages(set_up_checkout):
    (set_up_checkout / ".make/packages").unlink()
    planned = "\n".join(plan(set_up_checkout, "environment"))
    assert "--requirement constraints.txt" in planned
    assert not any(word in planned for word in ("sync", "build:prod", "--editable"))


def test_the_packages_of_the_demo_are_those_it_needs_and_pinned_as_for_the_tests():
    pins = re.findall(r"^([\w.-]+)==([^ \n]+)", (ROOT / "demo-packages.txt").read_text(encoding="utf-8"), re.MULTILINE)
    every_pin = re.findall(
        r"^([\w.-]+)==([^ \n]+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set(pins) <= set(every_pin)
    listed = {name for name, _ in pins}
    assert needed_by_the_demo() <= listed
    assert not listed & {"mypy", "playwright", "pytest", "ruff"}


def needed_by_the_demo() -> set[str]:
    """What is installed here because the extra `demo` names it, or one of the packages that it names."""
    found: set[str] = set()
    waiting = [Requirement("jupyter-tpu[demo]")]
    while waiting:
        wanted = waiting.pop()
        for line in importlib.metadata.requires(wanted.name) or []:
            needed = Requirement(line)
            extras = wanted.extras or {""}
            if needed.marker and not any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                continue
            name = canonicalize_name(needed.name)
            if name not in found or needed.extras:
                found.add(name)
                waiting.append(needed)
    return found - {"jupyter-tpu"}
