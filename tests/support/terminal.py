"""A person with a terminal, an emulated cloud and folders of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator import ROOT, Emulator
from warm_python import WarmPopen, run_warm

from jupyter_tpu.emulator.control.client import EmulatorControl

TIMEOUT_S = 240


@dataclass
class Terminal:
    """Runs `jupyter tpu` and other commands as the user would, in folders below `home`."""

    home: Path
    emulator: Emulator
    environment: dict[str, str]

    @classmethod
    def at(cls, home: Path, emulator: Emulator) -> Terminal:
        folders = {
            "HOME": home,
            "JUPYTER_DATA_DIR": home / "jupyter",
            "JUPYTER_CONFIG_DIR": home / "config",
            "JUPYTER_RUNTIME_DIR": home / "runtime",
            "JUPYTER_TPU_DATA_DIR": home / "tpu",
            "IPYTHONDIR": home / "ipython",
        }
        own = {name: str(folder) for name, folder in folders.items()}
        return cls(home, emulator, {**os.environ, "PYTHONPATH": ROOT, **own, **emulator.variables})

    @property
    def rest(self) -> str:
        return self.emulator.rest

    @property
    def cloud(self) -> EmulatorControl:
        return self.emulator.control

    def command(self, *argv: str) -> list[str]:
        return [sys.executable, "-m", "jupyter_tpu.cli", *argv]

    def tpu(self, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **variables}
        return run_warm(self.command(*argv), env=environment, cwd=self.home, timeout=TIMEOUT_S)

    def tpu_until(self, words: str, *argv: str) -> str:
        """What a command prints, asked again until these words are in it: a node reports in its own time."""
        end = time.monotonic() + TIMEOUT_S
        while words not in (printed := self.tpu(*argv).stdout):
            assert time.monotonic() < end, printed
        return printed

    def tpu_in_fresh_python(self, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """The same in an interpreter that has imported nothing, for tests of how a command starts."""
        return self._run_cold(self.command(*argv), variables)

    def tpu_json(self, *argv: str, **variables: str) -> Any:
        done = self.tpu(*argv, "--json", **variables)
        assert done.stdout, done.stderr
        document = json.loads(done.stdout)
        assert document.pop("schema_version") == 1
        return document

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """A command of `jupyter tpu` that the test talks to while it runs."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return WarmPopen(self.command(*argv), text=True, env=self.environment, cwd=self.home, **pipes)

    def run(self, *argv: str, check: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
        """Any command; unless `check` is false, it must succeed."""
        if argv[:2] == (sys.executable, "-m"):
            environment = {**self.environment, **variables}
            done = run_warm([*argv], env=environment, cwd=self.home, timeout=TIMEOUT_S)
        else:
            done = self._run_cold([*argv], variables)
        assert done.returncode == 0 or not check, f"{argv} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def _run_cold(self, command: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**self.environment, **variables},
            cwd=self.home,
            timeout=TIMEOUT_S,
            check=False,
        )
