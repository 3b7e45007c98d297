"""An emulated cloud in a process of its own: the one way in which all tests start it, and a pool of those that wait.

What is tested of the start itself is in `tests/emulator/test_process.py`.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warm_python import WarmPopen

import jupyter_tpu
from jupyter_tpu.emulator.control.client import EmulatorControl
from jupyter_tpu.emulator.workers.machine import tokens_below
from jupyter_tpu.emulator.workers.process_tree import kill_processes_of

ZONE = "us-central1-a"
RUNTIME_VERSION = "v2-alpha-tpuv5-lite"
ACCELERATOR_TYPE = "v5litepod-8"
TIME_SCALE = 200
READY_TIMEOUT_S = 200
ROOT = str(Path(jupyter_tpu.__file__).parent.parent)
UNCHANGED = dict(os.environ)
"""The environment that no test has changed, for emulators that outlive the test which starts them."""


class Emulator:
    """An emulator process; `restart` brings its state back on the same ports."""

    zone = ZONE
    accelerator_type = ACCELERATOR_TYPE
    runtime_version = RUNTIME_VERSION

    def __init__(self, state_dir: Path, *options: str, environment: Mapping[str, str] | None = None) -> None:
        self.state_dir = state_dir
        self.project = "demo-project"
        self.options = options
        self._given = environment
        self._ports: tuple[str, ...] = ()
        self._process: subprocess.Popen[str] | None = None
        self.grpc = ""
        self.rest = ""
        self.token_file = ""

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.zone}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def control(self) -> EmulatorControl:
        return EmulatorControl(self.rest, self.token_file)

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that lead our commands and servers to it."""
        return {"JUPYTER_TPU_ENDPOINT": self.grpc, "JUPYTER_TPU_PROJECT": self.project}

    @property
    def settings(self) -> Any:
        from jupyter_tpu.cloud.settings import CloudSettings

        return CloudSettings(project=self.project, endpoint=self.grpc)

    def node_name(self, node_id: str) -> str:
        return f"{self.parent}/nodes/{node_id}"

    def start(self) -> None:
        self.state_dir.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "jupyter_tpu.emulator", "--json", "--state-dir", str(self.state_dir)]
        command += ["--time-scale", str(TIME_SCALE), *self.options, *self._ports]
        log = (self.state_dir / "emulator.log").open("a")
        with log:
            self._process = WarmPopen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=self._environment())
        ready = json.loads(self._ready_line())
        self.grpc, self.rest, self.token_file = ready["grpc"], ready["rest"], ready.get("token_file", "")
        self._ports = ("--port", self.grpc.rpartition(":")[2], "--rest-port", self.rest.rpartition(":")[2])

    def stop(self) -> None:
        """SIGTERM: it closes and kills its workers."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: what its workers run lives on until `restart` or the end of the test."""
        self._end(signal.SIGKILL)

    def hang_up(self) -> None:
        """SIGHUP: its terminal was closed."""
        self._end(signal.SIGHUP)

    def restart(self) -> None:
        self.stop()
        self.start()

    def log(self) -> str:
        return (self.state_dir / "emulator.log").read_text()

    def _ready_line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], READY_TIMEOUT_S)
        line = self._process.stdout.readline() if readable else ""
        if not line:
            self.kill()
            raise RuntimeError(f"the emulator did not start:\n{self.log()}")
        return line

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        self._process.wait(timeout=60)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None

    def _environment(self) -> dict[str, str]:
        given = os.environ if self._given is None else self._given
        path = os.pathsep.join(part for part in (ROOT, given.get("PYTHONPATH", "")) if part)
        return {**given, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def start_emulator(state_dir: Path, *options: str, environment: Mapping[str, str] | None = None) -> Emulator:
    """One that keeps its state in `state_dir`, whose name must be short: Unix sockets lie below it."""
    emulator = Emulator(state_dir, *options, environment=environment)
    emulator.start()
    return emulator


@contextmanager
def own_emulator(*options: str, environment: Mapping[str, str]) -> Iterator[Emulator]:
    """One with variables that no other test wants, such as an index of packages for its workers."""
    emulator = start_emulator(_new_state_dir(), *options, environment=environment)
    yield emulator
    _discard(emulator)


class EmulatorPool:
    """Emulators that wait, empty, for the next test that wants their options: starting one takes a second."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, ...], list[Emulator]] = {}

    def lend(self, options: tuple[str, ...]) -> Emulator:
        waiting = self._waiting.setdefault(options, [])
        return waiting.pop() if waiting else start_emulator(_new_state_dir(), *options, environment=UNCHANGED)

    def take_back(self, emulator: Emulator) -> None:
        """Emptied for the next one; what a test stopped or killed is thrown away."""
        if not emulator.is_running:
            _discard(emulator)
            return
        try:
            emulator.control.reset()
        except Exception as error:
            error.add_note(f"the emulator's log:\n{emulator.log()[-4000:]}")
            _discard(emulator)
            raise
        self._waiting[emulator.options].append(emulator)

    @contextmanager
    def lent(self, *options: str) -> Iterator[Emulator]:
        """An empty emulator for as long as the context lasts."""
        emulator = self.lend(options)
        yield emulator
        self.take_back(emulator)

    def close(self) -> None:
        for waiting in self._waiting.values():
            for emulator in waiting:
                _discard(emulator)


def _new_state_dir() -> Path:
    return Path(tempfile.mkdtemp(prefix="jt-"))  # pytest's own folders have names too long for Unix sockets


def _discard(emulator: Emulator) -> None:
    emulator.stop()
    kill_processes_of(tokens_below(emulator.state_dir))
    shutil.rmtree(emulator.state_dir, ignore_errors=True)


@dataclass(frozen=True)
class Elsewhere:
    """Somebody at work in a project with another tool; what they do is done when a call returns."""

    rest: str
    project: str

    def create(self, node_id: str, **fields: Any) -> str:
        """A node that is READY; its full name."""
        body = {"acceleratorType": ACCELERATOR_TYPE, "runtimeVersion": RUNTIME_VERSION, **fields}
        self._post(f"{self._parent}/nodes?nodeId={node_id}", body)
        return f"{self._parent}/nodes/{node_id}"

    def stop(self, node_id: str) -> None:
        self._post(f"{self._parent}/nodes/{node_id}:stop", {})

    @property
    def _parent(self) -> str:
        return f"projects/{self.project}/locations/{ZONE}"

    def _post(self, path: str, body: dict[str, Any]) -> None:
        data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.rest}/v2/{path}", data=data, headers=headers, method="POST")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60):
            pass
        EmulatorControl(self.rest).advance(3600)
