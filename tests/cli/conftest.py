"""A person with a terminal and an emulated cloud."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from warm_python import WarmPopen, run_warm

from jupyter_tpu.emulator.control.client import EmulatorControl

ZONE = "us-central1-a"


@dataclass
class Terminal:
    """Runs `jupyter tpu` as the user would, in folders of its own."""

    home: Path
    environment: dict[str, str]
    rest: str = ""

    @property
    def cloud(self) -> EmulatorControl:
        return EmulatorControl(self.rest)

    def tpu(self, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **variables}
        return run_warm(self.command(*argv), env=environment, cwd=self.home, timeout=100)

    def tpu_in_fresh_python(self, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """The same in an interpreter that has imported nothing, for tests of how a command starts."""
        environment = {**self.environment, **variables}
        return subprocess.run(
            self.command(*argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            cwd=self.home,
            timeout=100,
        )

    def tpu_json(self, *argv: str, **variables: str) -> Any:
        document = json.loads(self.tpu(*argv, "--json", **variables).stdout)
        assert document.pop("schema_version") == 1
        return document

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """A command that the test talks to while it runs."""
        return WarmPopen(
            self.command(*argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.home,
        )

    def command(self, *argv: str) -> list[str]:
        return [sys.executable, "-m", "jupyter_tpu.cli", *argv]


def environment_in(home: Path) -> dict[str, str]:
    folders = {
        "HOME": home,
        "JUPYTER_DATA_DIR": home / "jupyter",
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTER_RUNTIME_DIR": home / "runtime",
        "JUPYTER_TPU_DATA_DIR": home / "tpu",
        "IPYTHONDIR": home / "ipython",
    }
    return {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        **{name: str(folder) for name, folder in folders.items()},
    }


def run_terminal(*options: str) -> Iterator[Terminal]:
    # pytest's own folders have names too long for Unix sockets
    with tempfile.TemporaryDirectory(prefix="jt-", ignore_cleanup_errors=True) as folder:
        at = Terminal(home=Path(folder), environment=environment_in(Path(folder)))
        command = at.command("emulator", "--json", "--time-scale", "200", "--state-dir", f"{folder}/cloud", *options)
        with WarmPopen(command, stdout=subprocess.PIPE, env=at.environment) as emulator:
            assert emulator.stdout is not None
            ready = json.loads(emulator.stdout.readline())
            at.environment.update(JUPYTER_TPU_ENDPOINT=ready["grpc"], JUPYTER_TPU_PROJECT=ready["project"])
            at.rest = ready["rest"]
            yield at
            emulator.terminate()


@pytest.fixture(scope="module", name="run_terminal")
def run_terminal_of_ones_own() -> Callable[..., Iterator[Terminal]]:
    """For modules whose workers are of a kind of their own."""
    return run_terminal


@pytest.fixture(scope="module")
def terminal() -> Iterator[Terminal]:
    """A terminal whose cloud is an emulator, for all tests of a module; each test leaves the cloud as it was."""
    yield from run_terminal()
