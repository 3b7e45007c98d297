"""A person with a terminal: an emulated cloud, one READY node and its kernelspec, no Jupyter server."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from emulator import ZONE, EmulatorPool
from terminal import Terminal
from tiers import SSHD_KINDS
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect
from warm_python import WarmPopen


@pytest.fixture(scope="module", params=SSHD_KINDS)
def terminal(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, emulator_pool: EmulatorPool
) -> Iterator[Terminal]:
    """A terminal whose cloud is an emulator with the given kind of SSH server."""
    with emulator_pool.lent("--sshd", request.param) as emulator:
        yield Terminal.at(tmp_path_factory.mktemp("home"), emulator)


@pytest.fixture(scope="module")
def kernel_name(terminal: Terminal) -> str:
    """The kernelspec of a READY v5litepod-8, made by `jupyter tpu create`."""
    created = terminal.tpu("create", "my-node", "--type", "v5litepod-8", "--zone", ZONE)
    assert created.returncode == 0, created.stderr
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
        headers = {"Authorization": f"token {self.token}"}
        request = HTTPRequest(address, headers=headers, connect_timeout=120, request_timeout=120)
        events = await websocket_connect(request)
        async with asyncio.timeout(120):
            while not (intent := self.get(f"jupyter-tpu/v1/intents/{intent_id}")[1])["settled"]:
                await events.read_message()
            events.close()
            while await events.read_message() is not None:  # until the server has closed it as well
                pass
        return intent

    def _ask(self, request: urllib.request.Request) -> Any:
        request.add_header("Authorization", f"token {self.token}")
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=240) as answer:
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
        process.wait(timeout=120)


def _address(process: subprocess.Popen[bytes], info: Path, log_file: Path) -> str:
    """Where the server listens, from the file that it writes shortly before it does."""
    for _ in range(1800):
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
