"""Terminals on a node through a real server, with the messages that JupyterLab sends and expects."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from rest_api import assert_fits
from tiers import SSHD_KINDS
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from jupyter_tpu.server.events import FLEET_EVENT

if TYPE_CHECKING:
    from emulator import EmulatorPool

    from conftest import Cloud, Server, StartServer

pytestmark = pytest.mark.timeout(600)

ZONE = "us-central1-a"
NODE = {"node_id": "my-node", "zone": ZONE, "accelerator_type": "v5litepod-8", "runtime_version": "v2-alpha-tpuv5-lite"}
AT_NODE = f"nodes/{ZONE}/my-node"
PATIENCE_S = 180
QUIET = "exec bash --norc --noediting\nPS1=; stty -echo; echo rea''dy\n"
"""The same shell without editing and prompt, so that it prints only what commands print."""


@pytest.fixture(scope="module", params=SSHD_KINDS)
def cloud(request: pytest.FixtureRequest, emulator_pool: EmulatorPool) -> Iterator[Cloud]:
    """A cloud whose links can be broken, with each kind of SSH server."""
    with emulator_pool.lent("--link-faults", "--sshd", request.param) as emulator:
        yield emulator


@pytest.fixture(scope="module")
def lasting_server(cloud: Cloud, start_lasting_server: StartServer) -> Server:
    """A server with a READY node."""
    server = start_lasting_server(**cloud.variables)
    asyncio.run(create_node(server))
    return server


async def create_node(server: Server) -> None:
    async with server.events() as events:
        server.tpu("POST", "nodes", NODE)
        await events.until(lambda event: event["schema_id"] == FLEET_EVENT and event["phase"] == "ready")


@pytest.fixture
def name(lasting_server: Server) -> Iterator[str]:
    """A new terminal, which is shut down after the test."""
    opened = lasting_server.tpu("POST", f"{AT_NODE}/api/terminals")
    assert opened.status == 200, opened.text
    yield opened.json["name"]
    lasting_server.tpu("DELETE", f"{AT_NODE}/api/terminals/{opened.json['name']}")


class Screen:
    """A page with a terminal; `text` is what it has written to its screen since the last reset."""

    def __init__(self, socket: WebSocketClientConnection, seen: Screen | None) -> None:
        self._socket = socket
        self.text: str = seen.text if seen else ""
        self.seq: int = seen.seq if seen else -1
        self.kinds: list[str] = []

    def send(self, *message: Any) -> None:
        self._socket.write_message(json.dumps(message))

    def type(self, text: str) -> None:
        self.send("stdin", text)

    async def until(self, text: str) -> None:
        """Until `text` is on the screen, which must not have scrolled away."""
        async with asyncio.timeout(PATIENCE_S):
            while text not in self.text[-1000:]:
                await self.read()

    async def read(self) -> None:
        message = await self._socket.read_message()
        assert isinstance(message, str), "the connection was closed"
        kind, *content = json.loads(message)
        self.kinds.append(kind)
        if kind == "stdout":
            text, self.seq = content
            self.text = (self.text + text).rpartition("\x1bc")[2]


@asynccontextmanager
async def page(server: Server, name: str, seen: Screen | None = None) -> AsyncIterator[Screen]:
    """Open the terminal in a page, or again in one that has `seen` some of it."""
    url = f"{server.url.replace('http', 'ws', 1)}jupyter-tpu/v1/{AT_NODE}/terminals/websocket/{name}"
    url += f"?from={seen.seq}" if seen else ""
    headers = {"Authorization": f"token {server.token}"}
    socket = await websocket_connect(
        HTTPRequest(url, headers=headers, connect_timeout=PATIENCE_S, request_timeout=PATIENCE_S),
        max_message_size=2**30,
    )
    try:
        yield Screen(socket, seen)
    finally:
        socket.close()
        while await socket.read_message() is not None:
            pass


@asynccontextmanager
async def quiet_page(server: Server, name: str) -> AsyncIterator[Screen]:
    async with page(server, name) as screen:
        screen.type(QUIET)
        await screen.until("ready\r\n")
        screen.text = ""
        yield screen


def listed(server: Server) -> list[dict[str, Any]]:
    answer = server.tpu("GET", f"{AT_NODE}/api/terminals")
    assert_fits(answer.json, "Terminals")
    return list(answer.json)


async def test_it_is_used_as_a_terminal_of_jupyterlab(lasting_server: Server, name: str) -> None:
    async with quiet_page(lasting_server, name) as screen:
        assert screen.kinds[:2] == ["setup", "stdout"]
        screen.send("set_size", 33, 111, 500, 900)
        screen.type("stty size; echo $JUPYTER_TOKEN; sleep 999\n")
        await screen.until("33 111\r\n\r\n")
        assert [row["name"] for row in listed(lasting_server)] == [name]
        screen.type("\x03exit\n")
        while screen.kinds[-1] != "disconnect":
            await screen.read()
    assert listed(lasting_server) == []


async def test_every_page_shows_the_same_and_one_that_comes_back_gets_the_rest_once(
    lasting_server: Server, name: str
) -> None:
    async with quiet_page(lasting_server, name) as screen:
        screen.type("echo before; printf '\\033[6n'; read -t 1; echo; seq 5000; echo sta''rted; sleep 0.5; seq 3\n")
        await screen.until("started\r\n")
    async with page(lasting_server, name) as new:  # while the first one is closed
        await new.until("1\r\n2\r\n3\r\n")
        assert "before" in new.text
        assert "\x1b[6n" not in new.text  # it would answer, and the shell would run the answer
    async with page(lasting_server, name, seen=screen) as again:
        again.type("echo la''st\n")
        await again.until("last\r\n")
        numbers = "".join(f"{number}\r\n" for number in range(1, 5001))
        assert again.text.endswith(f"\r\n{numbers}started\r\n1\r\n2\r\n3\r\nlast\r\n")
        assert again.text.count("before") == 1


@pytest.mark.nightly
async def test_100_cuts_during_a_flood_leave_no_trace(lasting_server: Server, cloud: Cloud, name: str) -> None:
    expected = "".join(f"{number}\r\n" for number in range(1, 1_000_001))
    moments = iter(sorted(random.Random(1).sample(range(len(expected) - 100_000), 100)))
    async with quiet_page(lasting_server, name) as screen:
        screen.type("seq 1 1000000; echo do''ne\n")
        moment = next(moments)
        async with asyncio.timeout(500):
            while "done" not in screen.text[-100:]:
                await screen.read()
                if len(screen.text) > moment:
                    cloud.control.fault_link("my-node", "reset")
                    moment = next((each for each in moments if each > len(screen.text)), 10**9)
    assert screen.text == expected + "done\r\n"


@pytest.mark.nightly
async def test_it_survives_the_servers_death(cloud: Cloud, lasting_server: Server, start_server: StartServer) -> None:
    first = start_server(**cloud.variables)
    name = first.tpu("POST", f"{AT_NODE}/api/terminals").json["name"]
    async with quiet_page(first, name) as screen:
        screen.type("X=kept; echo se''t\n")
        await screen.until("set\r\n")
        first.kill()
    second = start_server(after=first, **cloud.variables)
    async with page(second, name, seen=screen) as again:
        again.type("echo $X; exit\n")
        while again.kinds[-1:] != ["disconnect"]:
            await again.read()
    assert again.text == "set\r\nkept\r\nexit\r\n"


@pytest.mark.nightly
async def test_the_smallest_page_sets_the_size_and_nonsense_is_ignored(lasting_server: Server, name: str) -> None:
    async with quiet_page(lasting_server, name) as large:
        large.send("set_size", 50, 200)
        async with page(lasting_server, name) as small:
            small.send()
            small.send("set_size")
            small.send("set_size", "a", None)
            small.send("set_size", -1, 0)
            small.send("stdin", 3)
            small.send("set_size", 60, 100)
            small.type("stty size\n")
            await small.until("50 100\r\n")
        large.type("echo; stty size\n")
        await large.until("\r\n50 200\r\n")


async def test_a_terminal_or_node_that_does_not_exist_ends_the_connection(lasting_server: Server) -> None:
    async with page(lasting_server, "gone") as screen:
        while screen.kinds[-1:] != ["disconnect"]:
            await screen.read()
    assert lasting_server.tpu("DELETE", f"{AT_NODE}/api/terminals/gone").json["reason"] == "terminal_not_found"
    assert lasting_server.tpu("POST", f"nodes/{ZONE}/no-node/api/terminals").status == 404


async def test_only_the_user_has_it_and_no_page_of_another_site(lasting_server: Server, name: str) -> None:
    url = f"{lasting_server.url.replace('http', 'ws', 1)}jupyter-tpu/v1/{AT_NODE}/terminals/websocket/{name}"
    cookie = lasting_server.tpu("GET", "nodes").headers["Set-Cookie"].partition(";")[0]
    strangers = ({}, {"Authorization": "token wrong"}, {"Cookie": cookie, "Origin": "https://evil.example"})
    for headers in strangers:
        with pytest.raises(HTTPClientError, match="403"):
            await websocket_connect(HTTPRequest(url, headers=headers))
