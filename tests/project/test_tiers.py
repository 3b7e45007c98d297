"""`make check`, `make test` and `make nightly` together run every test there is."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tiers import NIGHTLY, mostly_nightly

ROOT = Path(__file__).parents[2]


def pytest_options(target: str) -> list[str]:
    """What `make target` gives to pytest, but for how many processes run it."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "PYTEST_ARGUMENTS")}
    command = ["make", "--dry-run", "--always-make", target]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    commands = [line for line in done.stdout.splitlines() if "-m pytest" in line and "--numprocesses" in line]
    assert len(commands) == 1, commands
    options = shlex.split(commands[0].partition("-m pytest")[2])
    return [option for option in options if not re.match(r"--(numprocesses|dist|no-loadscope-reorder)", option)]


def test_nightly_leaves_nothing_out() -> None:
    *options, seed, examples = pytest_options("nightly")
    assert (options, examples) == (["-p", "shuffled_modules", "--shuffle-seed"], "--hypothesis-profile=nightly")
    assert seed.isdigit()


def test_shuffled_modules_are_the_same_tests_in_another_order() -> None:
    def collected(*options: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/wire", *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "support"), "PYTEST_ADDOPTS": ""}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if line.startswith("tests/")]

    in_order = collected()
    shuffled = collected("-p", "shuffled_modules", "--shuffle-seed", "1")
    assert shuffled != in_order
    assert sorted(shuffled) == sorted(in_order)
    assert shuffled == collected("-p", "shuffled_modules", "--shuffle-seed", "1")


def test_test_leaves_out_only_what_is_marked_for_the_night() -> None:
    assert pytest_options("test") == ["-m", "not nightly"]


def test_check_runs_folders_of_which_test_runs_the_same() -> None:
    *folders, option, marks = pytest_options("check")
    assert (option, marks) == ("-m", "not nightly")
    assert folders
    assert all((ROOT / folder).is_dir() for folder in folders)


def test_the_first_cases_run_always_and_the_others_at_night() -> None:
    assert mostly_nightly(["a", "b"], count=1) == ["a", pytest.param("b", marks=[NIGHTLY])]
    assert mostly_nightly([(1, 2), (3, 4)], count=1) == [(1, 2), pytest.param(3, 4, marks=[NIGHTLY])]
