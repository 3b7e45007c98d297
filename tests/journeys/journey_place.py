"""Where a journey happens: an emulated cloud with a READY node, and a Jupyter server that may be killed and come back.

All of it runs in processes of its own, in a folder of its own; nothing of the product is known here but its commands.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
from emulator import ZONE, start_emulator
from warm_python import WarmPopen, run_warm

from jupyter_tpu.emulator.network_faults.verbs import LinkFault

NODE = "my-node"
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_LOOK_EVERY_S = 0.05


def wait_for(what: Callable[[], Any], failure: Callable[[], str], within_s: float = 180) -> Any:
    """What `what` returns once that is true; other processes cannot call us, so they are asked again and again."""
    deadline = time.monotonic() + within_s
    while not (result := what()):
        if time.monotonic() > deadline:
            raise AssertionError(failure())
        time.sleep(_LOOK_EVERY_S)
    return result


class Place:
    """`cloud` and `node` come first; the server is started, killed and started again on the same port and token."""

    def __init__(self, folder: Path, *emulator_options: str) -> None:
        self.folder = folder
        self.token = secrets.token_hex(8)
        self.port = _free_port()
        self.kernel_name = ""
        self._server_options: tuple[str, ...] = ()
        self.server: subprocess.Popen[bytes] | None = None
        self.environment = {
            **os.environ,
            **{f"JUPYTER_{name}_DIR": str(folder / name.lower()) for name in ("DATA", "CONFIG", "RUNTIME", "TPU_DATA")},
            "IPYTHONDIR": str(folder / "ipython"),
            "JUPYTER_TOKEN": self.token,
            "PYTHONUNBUFFERED": "1",
        }
        self.notebooks = folder / "notebooks"
        self.notebooks.mkdir()
        self.emulator = start_emulator(folder / "cloud", "--link-faults", *emulator_options)
        self.environment.update(self.emulator.variables)
        self.cloud = self.emulator.control
        self.node = self.emulator.node_name(NODE)

    def create_node(self, accelerator_type: str) -> None:
        """By the command line, as a user would."""
        self.tpu("create", NODE, "--type", accelerator_type, "--zone", ZONE)
        self.kernel_name = str(json.loads(self.tpu("describe", NODE, "--zone", ZONE, "--json"))["kernelspec"])

    def tpu(self, *argv: str) -> str:
        command = [sys.executable, "-m", "jupyter_tpu.cli", *argv]
        done = run_warm(command, env=self.environment, timeout=240)
        assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def log_file(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    # -- the server

    def start_server(self, *options: str) -> None:
        """It listens when this returns; the options of the first time stay."""
        self._server_options = self._server_options or options
        command = [sys.executable, "-m", "jupyterlab", "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={self.port}"]
        command += ["--ServerApp.port_retries=0", "--no-browser", "--allow-root", "--expose-app-in-browser"]
        command += [f"--ServerApp.root_dir={self.notebooks}", "--LabApp.news_url=None", *self._server_options]
        with self.log_file("server").open("ab") as log:
            self.server = WarmPopen(command, stdout=log, stderr=log, env=self.environment, cwd=self.notebooks)
        wait_for(self._server_answers, self.server_log)

    def kill_server(self) -> None:
        """As the system does when memory is short: nothing is told to anybody."""
        assert self.server is not None
        self.server.send_signal(signal.SIGKILL)
        self.server.wait(timeout=120)

    def server_log(self) -> str:
        return self.log_file("server").read_text(errors="replace")[-8000:]

    def _server_answers(self) -> bool:
        assert self.server is not None
        assert self.server.poll() is None, f"the server ended:\n{self.server_log()}"
        try:
            self.ask("GET", "api/status")
        except OSError:
            return False
        return True

    def ask(self, verb: str, route: str, body: Any = None, *, port: int = 0) -> Any:
        """The JSON of a route's answer; RuntimeError with the refusal."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{port or self.port}/{route}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}", "Content-Type": "application/json"},
            method=verb,
        )
        try:
            with _OPENER.open(request, timeout=120) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise RuntimeError(f"{verb} {route}: {refusal.code} {refusal.read()[:2000]!r}") from None

    def ask_if_linked(self, route: str) -> Any:
        """None while the server says that the link to the worker is down."""
        try:
            return self.ask("GET", route)
        except RuntimeError as refusal:
            if "link_down" in str(refusal):
                return None
            raise

    def wait_until_alone(self, kernel_id: str) -> None:
        """Until the server knows of no page of this kernel."""
        route = f"api/kernels/{kernel_id}"
        wait_for(lambda: self.ask("GET", route)["connections"] == 0, lambda: "the server still sees a page")

    # -- the way to the worker, and the worker

    def fault_link(self, fault: LinkFault) -> None:
        """Break the SSH connections to the worker, or restore them."""
        fields = fault.to_json()
        self.cloud.fault_link(self.node, fields.pop("verb"), **{name: value for name, value in fields.items() if value})

    @property
    def homes(self) -> list[Path]:
        """The home folders of all workers."""
        return [Path(worker["home"]) for worker in self.cloud.workers(self.node)]

    @property
    def home(self) -> Path:
        """The worker's home folder."""
        return self.homes[0]

    def worker_processes(self, worker: int = 0) -> dict[psutil.Process, list[str]]:
        """The processes of a worker, with their command lines."""
        token = self.cloud.workers(self.node)[worker]["token"]
        found = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if token in process.environ().values():
                    found[process] = process.cmdline()
        return found

    def agents(self, worker: int = 0) -> list[psutil.Process]:
        found = self.worker_processes(worker)
        return [each for each, line in found.items() if "agent" in line and "supervise" not in line]

    def kill_agent(self) -> None:
        """Its supervisor starts another one."""
        for process in self.agents():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def agent_log(self) -> str:
        """The newest of what the agent's log and the supervisor's say."""
        logs = sorted((self.home / ".jupyter-tpu").glob("**/*.log"))
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-1500:]}" for log in logs)

    def allow(self, gate: str) -> None:
        """Let a cell go on that waits for this file; see `GATES`."""
        (self.home / gate).touch()

    def wait_for_mark(self, mark: str, within_s: float = 180) -> None:
        """Until a cell has left this mark."""
        path = self.home / mark
        wait_for(path.exists, lambda: f"no cell has come to {mark}\n{self.server_log()}", within_s)

    def close(self) -> None:
        if self.server is not None and self.server.poll() is None:
            self.server.kill()
            self.server.wait(timeout=120)
        self.emulator.stop()


GATES = """
from pathlib import Path as _Path
import time as _time

def come_to(mark):
    (_Path.home() / mark).touch()

def wait_at(gate):
    come_to(f"at-{gate}")
    while not (_Path.home() / gate).exists():
        _time.sleep(0.01)
"""
"""What a cell needs to be led by a test: it says where it is, and waits until it may go on."""


def _free_port() -> int:
    """A port that stays free until the server binds it, and again while the server is restarted."""
    while True:
        # Below the ports that Linux gives to connections and to other tests' servers.
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def a_place(*emulator_options: str, accelerator_type: str = "v5litepod-8") -> Iterator[Place]:
    """A place with a READY node, and no server yet; nothing of it is left at the end."""
    folder = Path(tempfile.mkdtemp(prefix="jt-"))  # pytest's own folders have names too long for Unix sockets
    place = Place(folder, *emulator_options)
    try:
        place.create_node(accelerator_type)
        yield place
    finally:
        place.close()
        shutil.rmtree(folder, ignore_errors=True)
