"""Pages of a kernel whose link is down: they open, are told the truth, and go on when the link is back."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from jupyter_tpu.agent.paths import Home

if TYPE_CHECKING:
    from conftest import Cloud, OpenPages, Server, StartServer

pytestmark = pytest.mark.timeout(600)

ZONE = "us-central1-a"
NODE = {"zone": ZONE, "accelerator_type": "v5litepod-8", "runtime_version": "v2-alpha-tpuv5-lite"}


@pytest.fixture(scope="module")
def server(faulty_cloud: Cloud, start_lasting_server: StartServer) -> Server:
    """A server with a READY node."""
    server = start_lasting_server(**faulty_cloud.variables)
    server.tpu("POST", "nodes", {**NODE, "node_id": "my-node"})
    until(lambda: any(node["kernelspec"] for node in server.tpu("GET", "nodes").json["nodes"]))
    return server


@pytest.fixture
def kernel_id(server: Server) -> Iterator[str]:
    answer = server.request("POST", "api/kernels", {"name": f"tpu-my-node-{ZONE}"})
    assert answer.status == 201, answer.text
    yield answer.json["id"]
    server.request("DELETE", f"api/kernels/{answer.json['id']}")


class Network:
    """What lies between this machine and the node."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._node = f"projects/{cloud.project}/locations/{ZONE}/nodes/my-node"

    def refuse(self) -> None:
        """Cut what is open, and let nothing in."""
        self._cloud.control.fault_link(self._node, "refuse")
        self.reset()

    def reset(self) -> None:
        """Cut what is open."""
        self._cloud.control.fault_link(self._node, "reset")

    def restore(self) -> None:
        self._cloud.control.fault_link(self._node, "clear")


@pytest.fixture
def network(faulty_cloud: Cloud) -> Iterator[Network]:
    network = Network(faulty_cloud)
    yield network
    network.restore()


def until(check: Callable[[], Any]) -> Any:
    """What `check` finds; asked over and over, because a REST API never calls."""
    for _ in range(3600):
        if found := check():
            return found
        signal.sigtimedwait([], 0.05)
    raise AssertionError("it did not happen")


def link_state(server: Server, kernel_id: str) -> str:
    answer = server.tpu("GET", f"kernels/{kernel_id}/outputs")
    return str(answer.json["link"]["state"]) if answer.status == 200 else "down"


async def test_a_page_that_opens_while_the_link_is_down_is_told_so_and_goes_on_when_it_is_back(
    server: Server, kernel_id: str, network: Network, open_page: OpenPages
) -> None:
    old = await open_page(server, kernel_id)
    await old.until_idle(old.execute("x = 41"))
    network.refuse()
    await asyncio.to_thread(until, lambda: link_state(server, kernel_id) == "down")

    page = await open_page(server, kernel_id)
    first = await page.until(lambda message: message["msg_type"] == "status")
    msg_id = page.execute("print(x + 1)")
    network.restore()
    await page.until_idle(msg_id)

    assert first["content"] == {"execution_state": "unknown"}
    assert page.text(msg_id) == "42\n"
    states = [m["content"]["execution_state"] for m in page.heard if m["msg_type"] == "status"]
    assert states.index("idle") < len(states) - 1


async def test_a_page_that_stays_gets_what_was_said_while_the_link_was_down(
    server: Server, kernel_id: str, network: Network, open_page: OpenPages, tmp_path: Any
) -> None:
    gate = tmp_path / "go"
    page = await open_page(server, kernel_id)
    msg_id = page.execute(
        f"import pathlib, time\nprint('before', flush=True)\nwhile not pathlib.Path({str(gate)!r}).exists():\n"
        "    time.sleep(0.02)\nprint('after')"
    )
    await page.until(lambda _: page.text(msg_id) == "before\n")
    network.refuse()
    gate.touch()
    await asyncio.to_thread(until, lambda: link_state(server, kernel_id) == "down")
    network.restore()
    await page.until_idle(msg_id)

    assert page.text(msg_id) == "before\nafter\n"


@pytest.mark.nightly
async def test_a_restart_over_a_cut_link_happens_once_when_the_link_is_back(
    server: Server, kernel_id: str, network: Network, open_page: OpenPages
) -> None:
    page = await open_page(server, kernel_id)
    await page.until_idle(page.execute("x = 41"))
    network.refuse()
    await asyncio.to_thread(until, lambda: link_state(server, kernel_id) == "down")
    answer = await asyncio.to_thread(server.request, "POST", f"api/kernels/{kernel_id}/restart")
    network.restore()
    msg_id = page.execute("print('x' in globals())")
    await page.until_idle(msg_id)

    assert answer.status == 200
    assert page.text(msg_id) == "False\n"
    again = await open_page(server, kernel_id)
    await again.until_idle(again.execute("y = 1"))
    states = {m["content"]["execution_state"] for m in page.heard if m["msg_type"] == "status"}
    assert not states & {"dead", "autorestarting"}
    assert server.request("GET", f"api/kernels/{kernel_id}").json["connections"] == 2


async def test_a_page_keeps_its_connection_when_its_kernel_ends_itself(
    server: Server, kernel_id: str, open_page: OpenPages
) -> None:
    page = await open_page(server, kernel_id)
    page.execute("import os; os._exit(0)")
    await page.until(lambda m: m["msg_type"] == "status" and m["content"]["execution_state"] == "restarting")
    await page.until_idle(page.execute("x = 1"))
    assert server.request("GET", f"api/kernels/{kernel_id}").json["connections"] == 1


async def test_a_page_that_went_away_in_the_handshake_can_come_back(
    server: Server, kernel_id: str, open_page: OpenPages
) -> None:
    await asyncio.to_thread(shake_half_a_hand, server, kernel_id, "my-session")
    page = await open_page(server, kernel_id, "my-session")
    await page.until_idle(page.execute("x = 1"))
    assert server.request("GET", f"api/kernels/{kernel_id}").json["connections"] == 1


def shake_half_a_hand(server: Server, kernel_id: str, session_id: str) -> None:
    """Begin a WebSocket handshake that the server must refuse."""
    url = urlsplit(server.url)
    connection = HTTPConnection(url.hostname or "", url.port)
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    connection.request(
        "GET",
        f"{url.path}api/kernels/{kernel_id}/channels?session_id={session_id}",
        headers={**headers, "Authorization": f"token {server.token}"},
    )
    assert connection.getresponse().status == 400
    connection.close()


async def test_a_page_of_a_kernel_that_nobody_has_asked_anything_hears_that_it_is_idle(
    server: Server, kernel_id: str, open_page: OpenPages
) -> None:
    page = await open_page(server, kernel_id)
    await page.until(lambda m: m["msg_type"] == "status")
    await asyncio.to_thread(server.request, "POST", f"api/kernels/{kernel_id}/restart")
    await page.until_idle(page.execute("x = 1"))
    assert "starting" not in {m["content"]["execution_state"] for m in page.heard if m["msg_type"] == "status"}


@pytest.fixture
def broken_home(faulty_cloud: Cloud) -> Iterator[Callable[[bool], None]]:
    """Replaces the agent's folder on the worker by a file, and restores it."""
    worker = faulty_cloud.control.workers(f"projects/{faulty_cloud.project}/locations/{ZONE}/nodes/my-node")[0]
    root = Path(worker["home"]) / ".jupyter-tpu"
    elsewhere = root.with_name("elsewhere")

    def put(is_broken: bool) -> None:
        if is_broken:
            Home(root).socket.unlink()
            root.rename(elsewhere)
            root.write_text("in the way")
        elif elsewhere.exists():
            root.unlink()
            elsewhere.rename(root)

    yield put
    put(False)


async def test_a_cell_for_a_worker_that_needs_repair_gets_the_reason_and_one_after_the_repair_runs(
    server: Server, kernel_id: str, network: Network, broken_home: Callable[[bool], None], open_page: OpenPages
) -> None:
    page = await open_page(server, kernel_id)
    await page.until_idle(page.execute("x = 41"))
    broken_home(True)
    network.reset()
    model = await asyncio.to_thread(until, lambda: model_of(server, kernel_id, "unknown"))
    assert "agent can't use its files on the worker" in model["reason"]
    msg_id = page.execute("print(x + 1)")
    await page.until_idle(msg_id)
    (error,) = (message for message in page.heard if message["msg_type"] == "error")
    assert "agent can't use its files on the worker" in error["content"]["evalue"]
    broken_home(False)
    assert not (await asyncio.to_thread(until, lambda: model_of(server, kernel_id, "idle"))).get("reason")
    msg_id = page.execute("print(x + 1)")
    await page.until_idle(msg_id)
    assert page.text(msg_id) == "42\n"


def model_of(server: Server, kernel_id: str, state: str) -> Any:
    """What the server's list says of a kernel, once it is in this state."""
    model = server.request("GET", f"api/kernels/{kernel_id}").json
    return model if model["execution_state"] == state else None
