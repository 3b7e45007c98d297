"""The set-up of `make demo` and `make test` says in a sentence what is missing on a machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

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
        return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60)


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
    machine.put(python3="exit 1", **{"python3.12": f'exec {sys.executable} "$@"'})
    done = machine.run("make-venv", str(tmp_path / "venv"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "venv/pyvenv.cfg").is_file()


def test_a_user_who_is_not_root_hears_what_will_be_skipped(machine):
    machine.put(id="echo 1000")
    done = machine.run("system-tools")
    assert done.returncode == 0, done.stderr
    assert "chromium" in done.stdout
    assert "skipped" in done.stdout


SOURCES = ("constraints.txt", "pyproject.toml", *(f"labextension/{name}" for name in ("package.json", "yarn.lock")))
MORE_SOURCES = (
    *("labextension/.yarnrc.yml", "labextension/install.json", "labextension/src/index.ts"),
    *(f"tests/ui/vscode/{name}" for name in ("package.json", "yarn.lock", ".yarnrc.yml")),
)
DONE = (
    ".venv/pyvenv.cfg",
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
    done = subprocess.run(command, cwd=checkout, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_second_make_demo_starts_the_demo_and_nothing_else(set_up_checkout):
    assert [line.split("--dir")[0].strip() for line in plan(set_up_checkout, "demo")] == ["jupyter tpu demo"]


def test_a_second_make_test_installs_nothing(set_up_checkout):
    planned = "\n".join(plan(set_up_checkout, "test"))
    assert "python -m pytest" in planned
    assert not any(word in planned for word in ("install", "sync", "build:prod", "venv"))


def test_new_pins_are_installed(set_up_checkout):
    (set_up_checkout / "constraints.txt").touch()
    assert any("uv pip sync" in line for line in plan(set_up_checkout, "demo"))
