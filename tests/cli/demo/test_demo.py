"""`jupyter tpu demo`: one command up, one Ctrl-C down, nothing left running, nothing forgotten."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from jupyter_tpu.setup import child_process as children

if TYPE_CHECKING:
    from terminal import Terminal


@dataclass
class Demo:
    process: subprocess.Popen[str]
    address: str
    token: str
    printed: str

    def ask(self, route: str, verb: str = "GET", body: Any = None) -> Any:
        request = urllib.request.Request(
            f"{self.address}{route}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}"},
            method=verb,
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            return json.load(answer)

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def child(self, word: str) -> psutil.Process:
        return next(each for each in self.family() if word in " ".join(each.cmdline()))


@contextmanager
def running(
    terminal: Terminal, folder: Path, *options: str, meanwhile: Callable[[], None] | None = None
) -> Iterator[Demo]:
    """A demo that can be reached; `meanwhile` is called while it starts."""
    process = subprocess.Popen(
        terminal.command("demo", "--no-browser", "--dir", str(folder), "--", "--ServerApp.log_level=INFO", *options),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=terminal.environment,
    )
    with process:
        try:
            if meanwhile is not None:
                meanwhile()
            yield _reached(process)
        finally:
            process.send_signal(signal.SIGINT)


def _reached(process: subprocess.Popen[str]) -> Demo:
    printed = ""
    assert process.stdout is not None
    for line in process.stdout:
        printed += line
        if "Stop:" in line:
            match = re.search(r"(http://127\.0\.0\.1:\d+/)lab\?token=(\w+)", printed)
            assert match
            return Demo(process, match[1], match[2], printed)
    raise AssertionError(f"the demo ended without an address:\n{printed}")


def ended(family: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(family, timeout=60)
    return not alive


@pytest.fixture
def folder(terminal: Terminal) -> Path:
    return terminal.home / "demo"


def test_the_demo_runs_ends_and_remembers(terminal: Terminal, folder: Path) -> None:
    with running(terminal, folder) as demo:
        assert "nothing here costs money" in demo.printed
        status = demo.ask("jupyter-tpu/v1/status")
        assert (status["emulated"], status["error"]) == (True, None)
        assert [each["name"] for each in demo.ask("api/contents")["content"]] == ["digits.ipynb"]
        first_view = demo.ask("lab/api/workspaces/default")["data"]["layout-restorer:data"]
        assert first_view["left"]["current"] == "jupyter-tpu-panel"
        default = demo.ask("jupyter-tpu/v1/offers")["default"]
        demo.ask("jupyter-tpu/v1/nodes", "POST", {**default, "node_id": "kept"})
        family = demo.family()
        assert len(family) >= 2
        demo.process.send_signal(signal.SIGTERM)
        assert demo.process.wait(timeout=60) == 0
        assert demo.process.stdout is not None
        said = demo.process.stdout.read()
    assert ended(family)
    command = f"`jupyter tpu demo --dir {folder.resolve()}"
    assert "run: export JUPYTER_TPU_ENDPOINT=" in demo.printed + said
    assert f"{command} --reset` starts over" in said
    assert f"{command}` shows them again" in said

    with running(terminal, folder) as again:
        listed = again.ask("jupyter-tpu/v1/nodes")
        assert "kept" in json.dumps(listed)
        family = again.family()
        again.child("jupyterlab").kill()
        assert again.process.wait(timeout=60) == 1
        assert again.process.stdout is not None
        said = again.process.stdout.read()
    assert "JupyterLab exited unexpectedly" in said
    assert str(folder / "jupyterlab.log") in said
    assert "Traceback" not in said
    assert ended(family)


@pytest.mark.nightly
def test_a_port_that_another_program_takes_at_the_last_moment_is_given_up(terminal: Terminal, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        def give_way() -> None:
            log = folder / "jupyterlab.log"
            while not log.exists() or "could not be started because" not in log.read_text():
                time.sleep(0.02)
            other.close()

        only = (f"--ServerApp.port={port}", "--ServerApp.port_retries=0")
        with running(terminal, folder, *only, meanwhile=give_way) as demo:
            assert demo.address == f"http://127.0.0.1:{port}/"
            assert demo.ask("jupyter-tpu/v1/status")["emulated"] is True


@pytest.mark.nightly
def test_a_terminal_finds_this_environments_jupyter_and_opens_at_the_notebooks(
    terminal: Terminal, folder: Path
) -> None:
    with running(terminal, folder) as demo:
        typed = "echo found=$(command -v jupyter) at=$(pwd -P).\r"
        said = asyncio.run(said_in_a_terminal(demo, typed, r"found=(\S*) at=(/\S*)\.\s"))

    assert said == (f"{sysconfig.get_path('scripts')}/jupyter", str(folder.resolve() / "notebooks"))


async def said_in_a_terminal(demo: Demo, typed: str, pattern: str) -> tuple[str, ...]:
    """The groups of the pattern, as soon as a new terminal has written what matches it."""
    name = demo.ask("api/terminals", "POST", {})["name"]
    address = demo.address.replace("http", "ws", 1) + f"terminals/websocket/{name}"
    shell = await websocket_connect(HTTPRequest(address, headers={"Authorization": f"token {demo.token}"}))
    await shell.write_message(json.dumps(["stdin", typed]))
    written = ""
    async with asyncio.timeout(60):
        while not (match := re.search(pattern, written)):
            kind, text = json.loads(await shell.read_message() or '["disconnect", 1]')
            assert kind != "disconnect", written
            written += text if kind == "stdout" else ""
    shell.close()
    return match.groups()


@pytest.mark.nightly
def test_a_killed_demo_leaves_nothing_running(terminal: Terminal, folder: Path) -> None:
    with running(terminal, folder) as demo:
        family = demo.family()
        demo.process.kill()
        demo.process.wait(timeout=60)

    assert ended(family)


def test_a_folder_of_something_else_is_left_alone(terminal: Terminal) -> None:
    (terminal.home / "thesis").mkdir(exist_ok=True)
    (terminal.home / "thesis" / "thesis.tex").write_text("years of work")

    refused = terminal.tpu("demo", "--no-browser", "--reset", "--dir", str(terminal.home / "thesis"))

    assert refused.returncode == 1
    assert "is not a demo folder" in refused.stderr
    assert (terminal.home / "thesis" / "thesis.tex").exists()


async def test_a_port_that_another_demo_got_first_is_not_taken_for_our_own(tmp_path: Path) -> None:
    listens = (
        "import socket, time; port = socket.create_server(('127.0.0.1', 0));"
        "print(port.getsockname()[1], flush=True); time.sleep(60)"
    )
    program = children.running(
        "A server", [sys.executable, "-c", listens], log=tmp_path / "log", env=os.environ, answers=True
    )
    with socket.create_server(("127.0.0.1", 0)) as another:
        async with program as server:
            assert await server.listens_on(int(await server.first_line()))
            assert not await server.listens_on(another.getsockname()[1])
