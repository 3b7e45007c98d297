"""What README.md and the documentation tell readers to type works, on an emulated cloud."""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from documented_commands import PAGES, ROOT, commands_of
from emulator import Emulator, EmulatorPool
from tiers import mostly_nightly
from warm_python import run_warm

WITH_COMMANDS = [page for page in PAGES if any(commands_of(page.read_text(encoding="utf-8")))]


@pytest.fixture(scope="module")
def shared_emulator(emulator_pool: EmulatorPool) -> Iterator[Emulator]:
    """With a fault proxy before each worker, as the page on the emulator says."""
    with emulator_pool.lent("--link-faults") as emulator:
        yield emulator


@pytest.fixture
def keyboard() -> Iterator[int]:
    """A terminal at which a reader answers yes."""
    theirs, ours = pty.openpty()
    os.write(theirs, b"y\n" * 20)
    yield ours
    os.close(theirs)
    os.close(ours)


@pytest.mark.parametrize("page", mostly_nightly(WITH_COMMANDS, count=5), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_works(page: Path, terminal: Any, keyboard: int) -> None:
    terminal.cloud.reset()
    environment = {
        **terminal.environment,
        "JUPYTER_TPU_EMULATOR": terminal.rest,
        "JUPYTER_TPU_DATA_DIR": str(terminal.home / page.stem),  # each page has a reader of its own
    }
    for words in commands_of(page.read_text(encoding="utf-8")):
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            environment[name] = terminal.environment.get(name, value)
            continue
        assert words[:2] == ["jupyter", "tpu"], f"say why {' '.join(words)} is not run"
        done = run_warm(terminal.command(*words[2:]), env=environment, cwd=terminal.home, timeout=240, stdin=keyboard)
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"


def test_a_block_runs_in_order_but_for_what_a_comment_excludes() -> None:
    page = """
<!-- before: jupyter tpu create a -->
<!-- not run (pip, jupyter lab): they change your machine -->
```bash
pip install .
jupyter lab
jupyter tpu list \\
  --json       # all
```
<!-- not run: no reader has this file -->
```bash
cat nothing
```
```bash
jupyter tpu stop a
```
"""
    assert [" ".join(words) for words in commands_of(page)] == [
        "jupyter tpu create a",
        "jupyter tpu list --json",
        "jupyter tpu stop a",
    ]
