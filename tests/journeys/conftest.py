"""A person with a terminal: an emulated cloud, one READY node and its kernelspec, no Jupyter server."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tiers import SSHD_KINDS
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect
from warm_python import WarmPopen, run_warm

from jupyter_tpu.emulator.control.client import EmulatorControl

ZONE = "us-central1-a"


@dataclass
class Terminal:
    """Runs commands as the user would, in an environment of its own."""

    home: Path
    environment: dict[str, str]
    background: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def cloud(self) -> EmulatorControl:
        return EmulatorControl(self.environment["EMULATOR_REST"])

    def run(
        self, *argv: str, check: bool = True, stdin: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **variables}
        options: dict[str, Any] = {"input": stdin, "env": environment, "cwd": self.home, "timeout": 110}
        if argv[:2] == (sys.executable, "-m"):
            done = run_warm([*argv], **options)
        else:
            done = subprocess.run(argv, capture_output=True, text=True, check=False, **options)
        if check and done.returncode:
            raise AssertionError(f"{argv} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def tpu(self, *argv: str, check: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "jupyter_tpu.cli", *argv, check=check, **variables)

    def tpu_json(self, *argv: str) -> Any:
        return json.loads(self.tpu(*argv, "--json").stdout)

    def start(self, *argv: str) -> subprocess.Popen[str]:
        process = WarmPopen(argv, stdout=subprocess.PIPE, text=True, env=self.environment, cwd=self.home)
        self.background.append(process)
        return process

    def close(self) -> None:
        for process in self.background:
            process.terminate()
            process.wait(timeout=30)
            if process.stdout is not None:
                process.stdout.close()


@pytest.fixture(scope="module", params=SSHD_KINDS)
def terminal(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A terminal whose cloud is an emulator with the given kind of SSH server."""
    home = tmp_path_factory.mktemp("home")
    environment = {
        **os.environ,
        "JUPYTER_DATA_DIR": str(home / "jupyter"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTER_TPU_DATA_DIR": str(home / "tpu"),
        "IPYTHONDIR": str(home / "ipython"),
    }
    at = Terminal(home=home, environment=environment)
    emulator = at.start(
        *[sys.executable, "-m", "jupyter_tpu.cli", "emulator", "--json", "--time-scale", "200"],
        *["--state-dir", str(home / "cloud"), "--sshd", request.param],
    )
    assert emulator.stdout is not None
    ready = json.loads(emulator.stdout.readline())
    environment.update(JUPYTER_TPU_ENDPOINT=ready["grpc"], JUPYTER_TPU_PROJECT=ready["project"])
    environment["EMULATOR_REST"] = ready["rest"]
    yield at
    at.close()


@pytest.fixture(scope="module")
def kernel_name(terminal: Terminal) -> str:
    """The kernelspec of a READY v5litepod-8, made by `jupyter tpu create`."""
    terminal.tpu("create", "my-node", "--type", "v5litepod-8", "--zone", ZONE)
    return str(terminal.tpu_json("describe", "my-node", "--zone", ZONE)["kernelspec"])


@dataclass(frozen=True)
class Server:
    """A Jupyter server that the person at the terminal has started, and what a front end sends it."""

    url: str
    token: str
    log_file: Path

    def post(self, route: str, body: Any) -> Any:
        """The status and the JSON of the answer."""
        return self._ask(urllib.request.Request(f"{self.url}{route}", data=json.dumps(body).encode(), method="POST"))

    def get(self, route: str) -> Any:
        return self._ask(urllib.request.Request(f"{self.url}{route}"))

    def log(self) -> str:
        return self.log_file.read_text()

    async def settled(self, intent_id: str) -> Any:
        """An intent once it has come to an end."""
        address = f"{self.url.replace('http', 'ws', 1)}api/events/subscribe"
        events = await websocket_connect(HTTPRequest(address, headers={"Authorization": f"token {self.token}"}))
        async with asyncio.timeout(60):
            while not (intent := self.get(f"jupyter-tpu/v1/intents/{intent_id}")[1])["settled"]:
                await events.read_message()
            events.close()
            while await events.read_message() is not None:  # until the server has closed it as well
                pass
        return intent

    def _ask(self, request: urllib.request.Request) -> Any:
        request.add_header("Authorization", f"token {self.token}")
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=100) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, json.load(refusal)


@pytest.fixture(scope="module")
def start_server(terminal: Terminal) -> Iterator[Callable[..., Server]]:
    """Starts Jupyter servers in the terminal's folders that end with the module."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*options: str, **variables: str) -> Server:
        log_file = terminal.home / f"server-{len(started)}.log"
        token = secrets.token_hex(8)
        command = [
            sys.executable,
            "-m",
            "jupyter_server",
            "--ip=127.0.0.1",
            "--port=0",
            "--no-browser",
            "--allow-root",
            *options,
        ]
        environment = {**terminal.environment, **variables, "JUPYTER_TOKEN": token}
        with log_file.open("wb") as log:
            process = WarmPopen(command, env=environment, cwd=terminal.home, stdout=log, stderr=log)
        started.append(process)
        runtime = Path(environment["JUPYTER_RUNTIME_DIR"])
        return Server(_address(process, runtime / f"jpserver-{process.pid}.json", log_file), token, log_file)

    yield start
    for process in started:
        process.terminate()
        process.wait(timeout=30)


def _address(process: subprocess.Popen[bytes], info: Path, log_file: Path) -> str:
    """Where the server listens, from the file that it writes shortly before it does."""
    for _ in range(600):
        try:
            process.wait(timeout=0.1)
            break
        except subprocess.TimeoutExpired:
            if info.exists() and info.stat().st_size:
                told = json.loads(info.read_text())
                if _listens(int(told["port"])):
                    return str(told["url"])
    raise AssertionError(f"the server does not listen:\n{log_file.read_text()}")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
