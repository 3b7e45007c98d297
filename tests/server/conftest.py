"""A real Jupyter server with the extension, as a process of its own, and what a front end sends it."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from emulator import Emulator, EmulatorPool
from jupyter_client.session import Session
from jupyter_server.services.kernels.connection.base import deserialize_msg_from_ws_v1, serialize_msg_to_ws_v1
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect
from warm_python import WarmPopen

# JupyterLab and what comes with it take three quarters of a start's CPU time, and no route of ours needs them. Tests in
# a browser load them.
_EXTENSIONS = {
    **{"jupyter_tpu": True, "jupyterlab": False, "notebook": False, "notebook_shim": False},
    **{"jupyter_lsp": False, "jupyter_server_terminals": False},
}
CONFIG = {"ServerApp": {"jpserver_extensions": _EXTENSIONS, "open_browser": False, "allow_root": True}}
START_TIMEOUT_S = 180
EVENT_TIMEOUT_S = 180  # a fleet that is not sure whether the cloud heard it looks for a minute
NOTHING: Mapping[str, str] = MappingProxyType({})
V1_PROTOCOL = "v1.kernel.websocket.jupyter.org"
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Events:
    """The server's event stream."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self._socket = socket
        self.seen: list[dict[str, Any]] = []

    async def until(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first event from now on for which `is_it` says yes."""
        try:
            async with asyncio.timeout(EVENT_TIMEOUT_S):
                while not is_it(event := await self._next()):
                    self.seen.append(event)
                return event
        except TimeoutError:
            raise AssertionError(f"it did not happen; what did: {json.dumps(self.seen, indent=1)}") from None

    async def _next(self) -> dict[str, Any]:
        message = await self._socket.read_message()
        assert message is not None, "the stream ended"
        event: dict[str, Any] = json.loads(message)
        return event

    async def until_true(self, check: Callable[[], bool]) -> None:
        """Until `check` holds; it is asked now and after each event."""
        if not check():
            await self.until(lambda _event: check())


@dataclass
class Server:
    url: str
    token: str
    folder: Path
    process: subprocess.Popen[bytes]

    def request(
        self,
        verb: str,
        route: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] = NOTHING,
    ) -> Answer:
        sent = self.token if token is None else token
        all_headers = {**({"Authorization": f"token {sent}"} if sent else {}), **headers}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.url}{route}", data=data, headers=all_headers, method=verb)
        try:
            with _OPENER.open(request, timeout=120) as answer:
                return Answer(answer.status, dict(answer.headers), answer.read().decode())
        except urllib.error.HTTPError as refusal:
            with refusal:
                return Answer(refusal.code, dict(refusal.headers), refusal.read().decode())

    def tpu(self, verb: str, route: str, body: Any = None, **options: Any) -> Answer:
        return self.request(verb, f"jupyter-tpu/v1/{route}", body, **options)

    @asynccontextmanager
    async def events(self) -> AsyncIterator[Events]:
        address = f"{self.url.replace('http', 'ws', 1)}api/events/subscribe"
        socket = await websocket_connect(_websocket_request(address, self.token))
        try:
            yield Events(socket)
        finally:
            socket.close()
            while await socket.read_message() is not None:  # until the server has closed it as well
                pass

    def log(self) -> str:
        return (self.folder / "server.log").read_text()

    def kill(self) -> None:
        """SIGKILL, as a crash or the out-of-memory killer would."""
        self.process.kill()
        self.process.wait(timeout=120)

    def stop(self) -> int:
        self.process.terminate()
        try:
            return self.process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # it writes its stacks into its log
            self.process.wait(timeout=120)
            raise AssertionError(f"the server did not stop:\n{self.log()[-8000:]}") from None


StartServer = Callable[..., Server]


@contextmanager
def servers(folder: Path) -> Iterator[StartServer]:
    """Starts servers with traits of TPUApp and variables of one's own, in folders of their own or another's."""
    started: list[Server] = []

    def start(
        *options: str, after: Server | None = None, traits: Mapping[str, Any] = NOTHING, **variables: str
    ) -> Server:
        server = _started(after.folder if after else folder / f"server-{len(started)}", options, traits, variables)
        started.append(server)
        return server

    try:
        yield start
    finally:
        for server in started:
            if server.process.poll() is None:
                server.stop()


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Starts servers that end with the test."""
    with servers(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def start_lasting_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Starts servers that end with the module."""
    with servers(tmp_path_factory.mktemp("servers")) as start:
        yield start


Cloud = Emulator


@pytest.fixture(scope="module")
def cloud(emulator_pool: EmulatorPool) -> Iterator[Cloud]:
    """One cloud for all tests of a module; each test leaves it as it was."""
    with emulator_pool.lent() as emulator:
        yield emulator


@pytest.fixture(scope="module")
def faulty_cloud(emulator_pool: EmulatorPool) -> Iterator[Cloud]:
    """A cloud whose links can be cut."""
    with emulator_pool.lent("--link-faults") as emulator:
        yield emulator


@pytest.fixture(scope="module")
def server(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests of a module."""
    with servers(tmp_path_factory.mktemp("servers")) as start:
        yield start(**cloud.variables)


def _started(folder: Path, options: tuple[str, ...], traits: Mapping[str, Any], variables: dict[str, str]) -> Server:
    (folder / "config").mkdir(parents=True, exist_ok=True)
    (folder / "config" / "jupyter_server_config.json").write_text(json.dumps({**CONFIG, "TPUApp": dict(traits)}))
    token = secrets.token_hex(8)
    environment = {**os.environ, **_folders(folder), "JUPYTER_TOKEN": token, "HOME": str(folder), **variables}
    with (folder / "server.log").open("ab") as log:
        process = WarmPopen(
            [sys.executable, "-m", "jupyter_server", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", *options],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    return Server(_address(process, folder), token, folder, process)


def _folders(folder: Path) -> dict[str, str]:
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_TPU_DATA_DIR", "IPYTHONDIR")
    places = ("config", "data", "runtime", "tpu", "ipython")
    return dict(zip(names, (str(folder / place) for place in places), strict=True))


def _address(process: subprocess.Popen[bytes], folder: Path) -> str:
    """Where the server listens, from the file that it writes shortly before it does."""
    info = folder / "runtime" / f"jpserver-{process.pid}.json"
    for _ in range(START_TIMEOUT_S * 10):
        try:
            process.wait(timeout=0.1)
            raise AssertionError(f"the server ended:\n{(folder / 'server.log').read_text()}")
        except subprocess.TimeoutExpired:
            if info.exists() and info.stat().st_size:
                told = json.loads(info.read_text())
                if _listens(int(told["port"])):
                    return str(told["url"])
    raise AssertionError(f"the server does not listen:\n{(folder / 'server.log').read_text()}")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _websocket_request(address: str, token: str) -> HTTPRequest:
    headers = {"Authorization": f"token {token}"}
    return HTTPRequest(address, headers=headers, connect_timeout=EVENT_TIMEOUT_S, request_timeout=EVENT_TIMEOUT_S)


class OpenPages:
    """Pages of one test; those that are still open are closed with it."""

    def __init__(self) -> None:
        self._opened: list[Page] = []

    async def __call__(self, server: Server, kernel_id: str, session_id: str = "", **options: Any) -> Page:
        """An open page, of a new session unless one is given."""
        page = Page(server, kernel_id, session_id or secrets.token_hex(8), **options)
        self._opened.append(page)
        await page.open()
        return page

    async def close(self) -> None:
        for page in self._opened:
            await page.close()


@pytest.fixture
async def open_page() -> AsyncIterator[OpenPages]:
    """Opens pages on kernels."""
    pages = OpenPages()
    yield pages
    await pages.close()


Message = dict[str, Any]


class Page:
    """One page without a browser. It reads all the time, and keeps what it heard."""

    def __init__(
        self,
        server: Server,
        kernel_id: str,
        session_id: str,
        *,
        protocol: str = V1_PROTOCOL,
        address: str = "",
        largest_message: int = 1 << 30,
    ) -> None:
        self.session_id = session_id
        self.heard: list[Message] = []
        self.is_closed = False
        url = (address or server.url).replace("http", "ws", 1)
        self._address = f"{url}api/kernels/{kernel_id}/channels?session_id={session_id}"
        self._token = server.token
        self._protocol = protocol
        self._largest_message = largest_message
        self._session = Session(session=session_id)
        self._news = asyncio.Condition()
        self._socket: WebSocketClientConnection | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        request = _websocket_request(self._address, self._token)
        protocols = [self._protocol] if self._protocol else []
        self._socket = await websocket_connect(request, subprotocols=protocols, max_message_size=self._largest_message)
        self._reading = asyncio.create_task(self._read(self._socket))

    async def close(self) -> None:
        """As a browser does: what arrives afterwards is thrown away."""
        if self._socket and self._reading:
            self._socket.close()
            self.is_closed = True
            await self._reading

    async def settle(self) -> None:
        """Until the server knows that everything has arrived that has: it answers a ping after all pongs before it."""
        assert self._socket is not None
        answered = asyncio.get_running_loop().create_future()
        self._socket.on_pong = lambda _: answered.done() or answered.set_result(None)  # type: ignore[assignment]
        self._socket.ping(b"settled?")
        async with asyncio.timeout(EVENT_TIMEOUT_S):
            await answered

    def send(
        self, kind: str, content: Mapping[str, Any], channel: str = "shell", parent: Any = None, **fields: Any
    ) -> str:
        """Returns the msg_id."""
        assert self._socket is not None
        message = {**self._session.msg(kind, dict(content), parent=parent), **fields}
        if self._protocol == V1_PROTOCOL:
            data = serialize_msg_to_ws_v1(message, channel, self._session.pack)
            self._socket.write_message(data, binary=True)
        else:
            self._socket.write_message(json.dumps({**message, "channel": channel, "buffers": []}, default=str))
        return str(message["header"]["msg_id"])

    def execute(self, code: str, **content: Any) -> str:
        whole = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": True}
        return self.send("execute_request", {**whole, "stop_on_error": False, **content})

    async def until(self, is_it: Callable[[Message], bool]) -> Message:
        """The first message, of all that came, for which `is_it` says yes."""
        try:
            async with asyncio.timeout(EVENT_TIMEOUT_S), self._news:
                await self._news.wait_for(lambda: any(map(is_it, self.heard)) or self.is_closed)
        except TimeoutError:
            pass
        found = next(filter(is_it, self.heard), None)
        assert found, f"it did not come; what did: {[(m['msg_type'], m['content']) for m in self.heard[-20:]]}"
        return found

    async def until_idle(self, msg_id: str) -> None:
        """Until a request is over for a page: its reply and its idle are there."""
        await self.until(lambda message: is_idle(message, msg_id))
        await self.until(lambda message: message["msg_type"] == "execute_reply" and parent_of(message) == msg_id)

    def text(self, msg_id: str) -> str:
        """What a request has printed here."""
        return "".join(
            message["content"]["text"]
            for message in self.heard
            if message["msg_type"] == "stream" and parent_of(message) == msg_id
        )

    def kinds(self, msg_id: str) -> list[str]:
        return [message["msg_type"] for message in self.heard if parent_of(message) == msg_id]

    async def _read(self, socket: WebSocketClientConnection) -> None:
        while (data := await socket.read_message()) is not None:
            async with self._news:
                if not self.is_closed:
                    self.heard.append(_unpacked(data))
                self._news.notify_all()
        async with self._news:
            self.is_closed = True
            self._news.notify_all()


def parent_of(message: Message) -> str:
    return str((message["parent_header"] or {}).get("msg_id", ""))


def is_idle(message: Message, msg_id: str) -> bool:
    return parent_of(message) == msg_id and message["content"].get("execution_state") == "idle"


def _unpacked(data: str | bytes) -> Message:
    if isinstance(data, str):
        message: Message = json.loads(data)
        return message
    channel, frames = deserialize_msg_from_ws_v1(data)
    header, parent_header, metadata, content = (json.loads(frame) for frame in frames[:4])
    return {
        "channel": channel,
        "msg_type": header["msg_type"],
        "header": header,
        "parent_header": parent_header,
        "metadata": metadata,
        "content": content,
        "buffers": frames[4:],
    }
