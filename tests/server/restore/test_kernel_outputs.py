"""What cells have put out while nobody looked: read from the node's record, through a real Jupyter server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from rest_api import assert_fits
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from jupyter_tpu.kernels.progress import LINK_SCHEMA
from jupyter_tpu.server.events import FLEET_EVENT

if TYPE_CHECKING:
    from conftest import Answer, Cloud, Server

ZONE = "us-central1-a"
NODE = {"node_id": "my-node", "zone": ZONE, "accelerator_type": "v5litepod-8", "runtime_version": "v2-alpha-tpuv5-lite"}
PATIENCE_S = 180
Message = dict[str, Any]


@pytest.fixture(scope="module")
def cloud(faulty_cloud: Cloud) -> Cloud:
    """The server of this module runs its kernels on a cloud whose links can be broken."""
    return faulty_cloud


class Page:
    """A page of a front end: one websocket, which hears what comes while it is open."""

    def __init__(self, socket: WebSocketClientConnection, session: str) -> None:
        self._socket = socket
        self._session = session

    def run(self, code: str, cell_id: str = "", *, may_ask: bool = False, stops_on_error: bool = False) -> str:
        """Ask for a cell to be run; returns the id of the request."""
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "allow_stdin": may_ask,
            "stop_on_error": stops_on_error,
        }
        return self._send("shell", "execute_request", content, {"cellId": cell_id} if cell_id else {})

    def answer(self, request: Message, text: str) -> None:
        self._send("stdin", "input_reply", {"status": "ok", "value": text}, {}, request["header"])

    async def until(self, is_it: Callable[[Message], bool]) -> Message:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                message: Message = json.loads(await self._next())
                if is_it(message):
                    return message

    async def until_true(self, check: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not check():  # noqa: ASYNC110 - what is only recorded is told to nobody
                await asyncio.sleep(0.05)

    async def until_done(self, msg_id: str) -> None:
        await self.until(lambda message: is_said(message, "status", msg_id, execution_state="idle"))

    async def close(self) -> None:
        self._socket.close()
        while await self._socket.read_message() is not None:  # until the server has closed it as well
            pass

    def _send(self, channel: str, kind: str, content: Any, metadata: Any, parent: Any = None) -> str:
        msg_id = uuid.uuid4().hex
        header = {
            "msg_id": msg_id,
            "msg_type": kind,
            "session": self._session,
            "username": "",
            "date": "",
            "version": "5.4",
        }
        parts = {"header": header, "parent_header": parent or {}, "metadata": metadata, "content": content}
        self._socket.write_message(json.dumps({**parts, "channel": channel, "buffers": []}))
        return msg_id

    async def _next(self) -> str:
        message = await self._socket.read_message()
        assert isinstance(message, str), "the connection was closed"
        return message


def is_said(message: Message, kind: str, msg_id: str, **content: Any) -> bool:
    fits = message["msg_type"] == kind and message["parent_header"].get("msg_id") == msg_id
    return fits and all(message["content"].get(name) == value for name, value in content.items())


@dataclass(frozen=True)
class Kernel:
    """A kernel on a node."""

    server: Server
    kernel_id: str

    @asynccontextmanager
    async def page(self) -> AsyncIterator[Page]:
        session = uuid.uuid4().hex
        url = f"{self.server.url.replace('http', 'ws', 1)}api/kernels/{self.kernel_id}/channels?session_id={session}"
        headers = {"Authorization": f"token {self.server.token}"}
        page = Page(
            await websocket_connect(
                HTTPRequest(url, headers=headers, connect_timeout=PATIENCE_S, request_timeout=PATIENCE_S),
                max_message_size=2**30,
            ),
            session,
        )
        try:
            yield page
        finally:
            await page.close()

    async def ran(self, code: str, cell_id: str = "") -> str:
        """Run a cell and look at nothing of it; returns the id of the request."""
        async with self.page() as page:
            msg_id = page.run(code, cell_id)
            await page.until_done(msg_id)
        return msg_id

    def ask(self, route: str) -> Answer:
        return self.server.tpu("GET", f"kernels/{self.kernel_id}/{route}")

    @contextmanager
    def open(self, route: str) -> Iterator[HTTPResponse]:
        """The answer while it comes in."""
        url = urlsplit(f"{self.server.url}jupyter-tpu/v1/kernels/{self.kernel_id}/{route}")
        connection = HTTPConnection(str(url.hostname), url.port, timeout=PATIENCE_S)
        try:
            connection.request("GET", url.path, headers={"Authorization": f"token {self.server.token}"})
            with connection.getresponse() as answer:
                yield answer
        finally:
            connection.close()

    def outputs(self, *msg_ids: str) -> dict[str, Any]:
        answer = self.ask("outputs?" + "&".join(f"msg_id={msg_id}" for msg_id in msg_ids))
        assert answer.status == 200, answer.text
        assert_fits(answer.json, "Outputs")
        return dict(answer.json)

    def request(self, msg_id: str) -> dict[str, Any]:
        (request,) = self.outputs(msg_id)["requests"]
        return dict(request)


@pytest.fixture(scope="module")
def kernel(server: Server) -> Iterator[Kernel]:
    """One kernel for all tests of the module."""
    asyncio.run(create_node(server))
    started = server.request("POST", "api/kernels", {"name": f"tpu-my-node-{ZONE}"})
    assert started.status == 201, started.text
    yield Kernel(server, started.json["id"])
    server.request("DELETE", f"api/kernels/{started.json['id']}")


async def create_node(server: Server) -> None:
    async with server.events() as events:
        server.tpu("POST", "nodes", NODE)
        await events.until(lambda event: event["schema_id"] == FLEET_EVENT and event["phase"] == "ready")


async def test_the_outputs_of_each_cell_come_with_its_id(kernel: Kernel) -> None:
    await kernel.ran("1", "cell-a")
    shown = await kernel.ran("handle = display('old', display_id=True); print('a'); print('b')", "cell-b")
    again = await kernel.ran("1 + 1", "cell-a")
    failed = await kernel.ran("handle.update('new'); 1 / 0", "cell-c")

    answer = kernel.outputs()

    requests = {request["cell_id"]: request for request in answer["requests"] if request["cell_id"]}
    assert [requests[name]["msg_id"] for name in ("cell-b", "cell-a", "cell-c")] == [shown, again, failed]
    assert [requests[name]["status"] for name in ("cell-b", "cell-a", "cell-c")] == ["ok", "ok", "error"]
    assert requests["cell-a"]["outputs"][0]["data"] == {"text/plain": "2"}
    assert requests["cell-b"]["outputs"][0]["data"] == {"text/plain": "'new'"}
    assert requests["cell-b"]["outputs"][0]["transient"]["display_id"]
    assert requests["cell-b"]["outputs"][1] == {"output_type": "stream", "name": "stdout", "text": "a\nb\n"}
    assert requests["cell-c"]["outputs"][0]["ename"] == "ZeroDivisionError"
    assert requests["cell-c"]["code"].endswith("1 / 0")
    assert requests["cell-c"]["header"]["msg_id"] == failed
    assert requests["cell-c"]["messages"] is None
    assert answer["link"]["state"] == "live"
    assert all(request["last_seq"] <= answer["seq"] for request in answer["requests"])


async def test_a_running_cell_comes_as_messages_and_with_the_input_it_waits_for(kernel: Kernel) -> None:
    async with kernel.page() as page:
        first = page.run(
            "print('50%\\r', end=''); name = input('name? '); print('hello', name)", "cell-d", may_ask=True
        )
        second = page.run("'second'", "cell-e")
        asked = await page.until(lambda message: message["msg_type"] == "input_request")

        running, queued = kernel.outputs(first, second)["requests"]
        text = kernel.ask(f"requests/{first}/text")

        assert (running["state"], queued["state"]) == ("running", "queued")
        assert running["input"]["content"]["prompt"] == "name? "
        assert running["input"]["header"]["msg_id"] == asked["header"]["msg_id"]
        assert [message["msg_type"] for message in running["messages"]] == ["status", "execute_input", "stream"]
        assert running["messages"][-1]["content"]["text"] == "50%\r"
        assert running["messages"][-1]["metadata"]["jupyter_tpu"]["seq"] <= running["last_seq"]
        assert (queued["messages"], queued["outputs"], queued["input"]) == ([], [], None)
        assert text.text == "50%\r"

        page.answer(asked, "bob")
        await page.until_done(second)
    done = kernel.request(first)
    assert (done["state"], done["input"]) == ("done", None)
    shown = [(output["name"], output["text"]) for output in done["outputs"]]
    assert shown[1:] == [("stdin", "name?  bob\n"), ("stdout", "hello bob\n")]


async def test_a_password_that_was_typed_is_in_no_answer_and_no_record(kernel: Kernel) -> None:
    async with kernel.page() as page:
        msg_id = page.run("import getpass; print(len(getpass.getpass('secret? ')))", "cell-p", may_ask=True)
        page.answer(await page.until(lambda message: message["msg_type"] == "input_request"), "hunter2")
        await page.until_done(msg_id)

    done = kernel.request(msg_id)

    assert [output["text"] for output in done["outputs"]] == ["secret?  ········\n", "7\n"]
    looked = await kernel.ran(
        "import pathlib\n"
        "segments = [path.read_bytes() for path in pathlib.Path.home().rglob('*.segment')]\n"
        "print(len(segments) > 0, any(b'hun' + b'ter2' in segment for segment in segments))"
    )
    assert kernel.request(looked)["outputs"][0]["text"] == "True False\n"


async def test_what_an_output_widget_has_taken_in_a_page_is_not_in_the_cell_as_well(kernel: Kernel) -> None:
    async with kernel.page() as page:
        msg_id = page.run(
            "import ipywidgets\nout = ipywidgets.Output()\nwith out: print('inside')\nprint('outside')", "cell-w"
        )
        await page.until_done(msg_id)
        await page.until_done(page.run("pass"))  # the server knows by now that what came before has arrived

    request = kernel.request(msg_id)

    assert (request["captured"], [output["text"] for output in request["outputs"]]) == (1, ["outside\n"])


async def test_the_whole_text_of_a_flood_is_kept_and_its_ends_are_shown(kernel: Kernel) -> None:
    lines = "".join(f"{number:099}\n" for number in range(60_000))
    msg_id = await kernel.ran("for n in range(60_000): print(f'{n:099}')")

    request = kernel.request(msg_id)
    text = kernel.ask(f"requests/{msg_id}/text")

    shown = request["outputs"][0]["text"]
    assert text.text == lines
    assert shown.startswith(lines[:10_000])
    assert shown.endswith(lines[-100_000:])
    assert "\n… 5." in shown
    assert "MB more on the node\n" in shown
    assert len(shown) < 201_000
    assert request["omitted_bytes"] > 5_000_000


@pytest.mark.nightly
async def test_a_text_comes_whole_over_a_link_that_is_cut_meanwhile(cloud: Cloud, kernel: Kernel) -> None:
    msg_id = await kernel.ran("for n in range(300_000): print(f'{n:099}')")
    with kernel.open(f"requests/{msg_id}/text") as answer:
        begun = answer.read(1_000_000)
        cloud.control.fault_link("my-node", "reset")
        text = begun + answer.read()

    assert text == b"".join(b"%099d\n" % number for number in range(300_000))


@pytest.mark.nightly
async def test_a_reader_that_goes_away_leaves_nothing_behind(server: Server, kernel: Kernel) -> None:
    msg_id = await kernel.ran("for n in range(300_000): print(f'{n:099}')")

    with kernel.open(f"requests/{msg_id}/text") as answer:
        answer.read(1000)

    assert kernel.ask(f"requests/{msg_id}/text").text.endswith("299999\n")
    assert "Traceback" not in server.log()


async def test_the_text_is_text_and_nothing_else(kernel: Kernel) -> None:
    msg_id = await kernel.ran("import sys; print('<script>'); sys.stdout.flush(); print('ü', file=sys.stderr)")

    shown = kernel.ask(f"requests/{msg_id}/text")
    saved = kernel.ask(f"requests/{msg_id}/text?download=1")

    assert shown.text == "<script>\nü\n"
    assert shown.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert shown.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in shown.headers["Content-Security-Policy"]
    assert "Content-Disposition" not in shown.headers
    assert saved.headers["Content-Disposition"].startswith("attachment; filename=")
    assert saved.text == shown.text


async def test_a_request_that_printed_nothing_has_an_empty_text(kernel: Kernel) -> None:
    msg_id = await kernel.ran("pass")

    assert (kernel.ask(f"requests/{msg_id}/text").status, kernel.ask(f"requests/{msg_id}/text").text) == (200, "")


@pytest.mark.parametrize("route", ["outputs", "requests/nobody/text"])
def test_a_kernel_that_is_nowhere_has_no_outputs(server: Server, kernel: Kernel, route: str) -> None:
    answer = server.tpu("GET", f"kernels/{uuid.uuid4()}/{route}")

    assert (answer.status, answer.json["reason"]) == (404, "outputs_not_found")


def test_a_kernel_of_this_machine_has_no_record(server: Server) -> None:
    started = server.request("POST", "api/kernels", {"name": "python3"}).json["id"]

    answer = server.tpu("GET", f"kernels/{started}/outputs")

    server.request("DELETE", f"api/kernels/{started}")
    assert (answer.status, answer.json["reason"]) == (404, "outputs_not_found")
    assert "node" in answer.json["message"]


def test_a_request_that_the_record_does_not_hold_is_not_found(kernel: Kernel) -> None:
    answer = kernel.ask("requests/nobody/text")

    assert (answer.status, answer.json["reason"]) == (404, "outputs_not_found")
    assert kernel.outputs("nobody")["requests"] == []


async def test_while_the_link_is_down_the_answer_says_so(server: Server, cloud: Cloud, kernel: Kernel) -> None:
    msg_id = await kernel.ran("print('kept')", "cell-f")
    async with server.events() as events:
        cloud.control.fault_link("my-node", "refuse")
        cloud.control.fault_link("my-node", "reset")
        await events.until(lambda event: event["schema_id"] == LINK_SCHEMA and event["state"] == "down")

        refused = [kernel.ask("outputs"), kernel.ask(f"requests/{msg_id}/text")]
        link = kernel.ask("link")

        cloud.control.fault_link("my-node", "clear")
        await events.until(lambda event: event["schema_id"] == LINK_SCHEMA and event["state"] == "live")
    assert_fits(link.json, "Link")
    assert (link.status, link.json["state"], kernel.ask("link").json["state"]) == (200, "down", "live")
    for answer in refused:
        assert (answer.status, answer.json["reason"]) == (503, "link_down")
        assert "still running" in answer.json["error"]["exists"]
    assert kernel.request(msg_id)["outputs"][0]["text"] == "kept\n"


async def test_what_ran_when_the_kernel_died_is_lost_with_its_output_kept(kernel: Kernel) -> None:
    done = await kernel.ran("'done'")
    async with kernel.page() as page:
        dying = page.run("import os, time; print(os.getpid(), flush=True); time.sleep(600)")
        begun = await page.until(lambda message: is_said(message, "stream", dying))
        os.kill(int(begun["content"]["text"]), signal.SIGKILL)  # emulated workers are on this machine
        await page.until(lambda message: message["content"].get("execution_state") == "restarting")

    after = await kernel.ran("'after'")

    requests = {request["msg_id"]: request for request in kernel.outputs(done, dying, after)["requests"]}
    assert [requests[each]["state"] for each in (done, dying, after)] == ["done", "lost", "done"]
    assert int(requests[dying]["outputs"][0]["text"]) == int(begun["content"]["text"])


async def test_what_an_error_kept_from_running_is_aborted(kernel: Kernel) -> None:
    async with kernel.page() as page:
        failing = page.run("input(); 1 / 0", may_ask=True, stops_on_error=True)
        asked = await page.until(lambda message: message["msg_type"] == "input_request")
        behind = page.run("'never'")
        await page.until_true(lambda: bool(kernel.outputs(behind)["requests"]))  # recorded, and so with the kernel
        page.answer(asked, "")
        await page.until_done(behind)

    states = {request["msg_id"]: request for request in kernel.outputs(failing, behind)["requests"]}

    assert (states[failing]["state"], states[failing]["status"]) == ("done", "error")
    assert (states[behind]["state"], states[behind]["outputs"]) == ("aborted", [])
