"""A Jupyter server that ends, however it does, leaves its kernels on their nodes, and the next one gives them back."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from jupyter_client.blocking import BlockingKernelClient

from jupyter_tpu.kernels.notes import KernelNotes

if TYPE_CHECKING:
    from conftest import Cloud, Server, StartServer

pytestmark = pytest.mark.timeout(240)

ZONE = "us-central1-a"
NODE = {"zone": ZONE, "accelerator_type": "v5litepod-8", "runtime_version": "v2-alpha-tpuv5-lite"}
PATIENCE = 1200

EndServer = Callable[["Server"], None]


@dataclass(frozen=True)
class Home:
    """A folder in which one server runs after the other, on a cloud with a READY node."""

    server: Server
    cloud: Cloud
    start: StartServer
    node_id: str
    started: list[Server] = field(default_factory=list)

    @property
    def node_name(self) -> str:
        return f"projects/{self.cloud.project}/locations/{ZONE}/nodes/{self.node_id}"

    @property
    def kernel_name(self) -> str:
        return f"tpu-{self.node_id}-{ZONE}"

    @property
    def notes(self) -> KernelNotes:
        return KernelNotes(self.server.folder / "tpu" / "kernels")

    def next_server(self, *options: str, **settings: Any) -> Server:
        server = self.start(*options, after=self.server, **settings, **self.cloud.variables)
        self.started.append(server)
        return server

    def end_kernels(self) -> None:
        """End those of servers that run, then those that nobody has."""
        for server in self.started:
            if server.process.poll() is None:
                end_kernels_of(server)
        if self.notes.list():
            end_kernels_of(self.next_server())

    def kernels_on_node(self) -> list[str]:
        """What the node's first worker keeps of kernels."""
        worker_home = Path(self.cloud.control.workers(self.node_name)[0]["home"])
        return [path.name for path in (worker_home / ".jupyter-tpu" / "kernels").iterdir()]


@pytest.fixture(scope="module")
def first_home(cloud: Cloud, start_lasting_server: StartServer) -> Server:
    """A folder with the kernelspec of a READY node; its server has ended."""
    server = start_lasting_server(**cloud.variables)
    make_node(server, "my-node")
    server.stop()
    return server


@pytest.fixture
def home(first_home: Server, cloud: Cloud, start_server: StartServer) -> Iterator[Home]:
    """A node that all tests share; no kernel and no note outlives a test."""
    at = Home(server=first_home, cloud=cloud, start=start_server, node_id="my-node")
    yield at
    at.end_kernels()
    assert at.notes.list() == ()


@pytest.fixture
def own_home(cloud: Cloud, start_server: StartServer) -> Home:
    """A node that the test may stop or delete."""
    server = start_server(**cloud.variables)
    make_node(server, "own-node")
    server.stop()
    return Home(server=server, cloud=cloud, start=start_server, node_id="own-node")


def end_kernels_of(server: Server) -> None:
    for kernel in server.request("GET", "api/kernels").json:
        server.request("DELETE", f"api/kernels/{kernel['id']}")


def make_node(server: Server, node_id: str) -> None:
    server.tpu("POST", "nodes", {**NODE, "node_id": node_id})
    until(lambda: kernelspec_of(server, node_id))


def kernelspec_of(server: Server, node_id: str) -> str | None:
    nodes = server.tpu("GET", "nodes").json["nodes"]
    return next((node["kernelspec"] for node in nodes if node["node_id"] == node_id), None)


def until(check: Callable[[], Any]) -> Any:
    """What `check` finds; asked over and over, because a REST API never calls."""
    for _ in range(PATIENCE):
        if found := check():
            return found
        signal.sigtimedwait([], 0.05)
    raise AssertionError("it did not happen")


def start_session(server: Server, home: Home, path: str = "work/train.ipynb", **fields: Any) -> dict[str, Any]:
    asked = {"path": path, "name": path.rpartition("/")[2], "type": "notebook", "kernel": {"name": home.kernel_name}}
    answer = server.request("POST", "api/sessions", {**asked, **fields})
    assert answer.status == 201, answer.text
    return dict(answer.json)


@contextmanager
def console(server: Server, kernel_id: str) -> Iterator[BlockingKernelClient]:
    """A client of the kernel's local sockets, as `jupyter console --existing`."""
    client = BlockingKernelClient(connection_file=str(server.folder / "runtime" / f"kernel-{kernel_id}.json"))
    client.load_connection_file()
    client.start_channels()
    try:
        yield client
    finally:
        client.stop_channels()


def value_of(server: Server, kernel_id: str, expression: str) -> str:
    """What the kernel computes."""
    with console(server, kernel_id) as client:
        asked = {"value": expression}
        reply = client.execute("", user_expressions=asked, silent=True, reply=True, timeout=60, stop_on_error=False)
    return str(reply["content"]["user_expressions"]["value"]["data"]["text/plain"])


def run(server: Server, kernel_id: str, code: str) -> None:
    with console(server, kernel_id) as client:
        reply = client.execute(code, reply=True, timeout=60, stop_on_error=False)
    assert reply["content"]["status"] == "ok", reply


def begin(server: Server, kernel_id: str, code: str) -> None:
    """Run a cell that takes its time."""
    with console(server, kernel_id) as client:
        client.execute(code, stop_on_error=False)
        until(lambda: state_of(server, kernel_id) == "busy")


def state_of(server: Server, kernel_id: str) -> str:
    return str(server.request("GET", f"api/kernels/{kernel_id}").json["execution_state"])


def cell_that_waits_for(path: Path) -> str:
    return f"import pathlib, time\nwhile not pathlib.Path({str(path)!r}).exists():\n    time.sleep(0.05)"


def without_kernel_state(sessions: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(each["id"], each["path"], each["name"], each["type"], each["kernel"]["id"]) for each in sessions]


def end_by(number: int) -> EndServer:
    def end(server: Server) -> None:
        server.process.send_signal(number)
        server.process.wait(timeout=60)

    return end


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_server_gives_back_the_busy_kernel_of_one_that_ended(home: Home, tmp_path: Path, number: int) -> None:
    first = home.next_server("--ServerApp.answer_yes=True")
    session = start_session(first, home)
    kernel_id = session["kernel"]["id"]
    run(first, kernel_id, "import os; x = 41")
    pid = value_of(first, kernel_id, "os.getpid()")
    begin(first, kernel_id, cell_that_waits_for(tmp_path / "go"))

    end_by(number)(first)
    second = home.next_server()

    sessions = second.request("GET", "api/sessions").json
    assert without_kernel_state(sessions) == without_kernel_state([session])
    assert [kernel["id"] for kernel in second.request("GET", "api/kernels").json] == [kernel_id]
    until(lambda: state_of(second, kernel_id) == "busy")
    (tmp_path / "go").touch()
    until(lambda: state_of(second, kernel_id) == "idle")
    assert (value_of(second, kernel_id, "x"), value_of(second, kernel_id, "os.getpid()")) == ("41", pid)
