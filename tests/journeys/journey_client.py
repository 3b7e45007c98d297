"""A plain front end: REST and one websocket, as any program may use them, and the cells that its user sees."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import nbformat
from journey_place import Place
from jupyter_server.services.kernels.connection.base import deserialize_binary_message
from nbclient import NotebookClient
from nbclient.client import CellExecutionComplete
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

Message = dict[str, Any]
WITHIN_S = 180
MAX_MESSAGE_BYTES = 256 * 1024 * 1024


@dataclass
class Cell:
    """One request and what came of it."""

    msg_id: str
    code: str
    messages: list[Message] = field(default_factory=list)
    replies: list[Message] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return any(m["content"].get("execution_state") == "idle" for m in self.messages)

    def text(self) -> str:
        """What was printed."""
        return "".join(out["text"] for out in outputs_of([self])[0] if out["output_type"] == "stream")


def outputs_of(cells: list[Cell]) -> list[list[Any]]:
    """What nbclient makes of the messages of the cells of a notebook; prints that follow each other are one output."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.code) for cell in cells])
    client = NotebookClient(notebook, record_timing=False)
    client.reset_execution_trackers()
    client.clear_before_next_output = False
    for index, cell in enumerate(cells):
        for message in cell.messages:
            with contextlib.suppress(CellExecutionComplete):
                client.process_message(message, notebook.cells[index], index)
    return [joined(cell.outputs) for cell in notebook.cells]


def joined(outputs: list[Any]) -> list[Any]:
    """Outputs as plain JSON, with prints to one stream that follow each other as one."""
    result: list[Any] = []
    for output in json.loads(json.dumps(outputs)):
        output.pop("transient", None)
        if output["output_type"] == "stream":
            output["text"] = "".join(output["text"])
            if result and result[-1].get("name") == output["name"]:
                result[-1]["text"] += output["text"]
                continue
        result.append(output)
    return result


class Tab:
    """What a user sees of a kernel, whichever way its messages come: cells, and waiting for what they show."""

    def __init__(self) -> None:
        self.session = uuid.uuid4().hex
        self.messages: list[Message] = []
        self.cells: dict[str, Cell] = {}
        self._news = asyncio.Event()

    def take(self, message: Message) -> None:
        """The next message from the kernel; `channel` is among its keys."""
        self.messages.append(message)
        cell = self.cells.get(message["parent_header"].get("msg_id", ""))
        if cell is not None:
            (cell.messages if message["channel"] == "iopub" else cell.replies).append(message)
        self._news.set()

    def wake(self) -> None:
        """Have `until` look again, though no message came."""
        self._news.set()

    def ask(self, msg_type: str, content: Message, parent: Message | None = None) -> Message:
        """A request to send."""
        header = {"msg_id": uuid.uuid4().hex, "msg_type": msg_type, "session": self.session, "username": ""}
        header.update(version="5.3", date=datetime.now(UTC).isoformat())
        return {"header": header, "parent_header": parent or {}, "metadata": {}, "content": content}

    def ask_to_execute(self, code: str) -> tuple[Message, Cell]:
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": True, "stop_on_error": False}
        request = self.ask("execute_request", content)
        request["metadata"]["cellId"] = uuid.uuid4().hex
        msg_id = request["header"]["msg_id"]
        return request, self.cells.setdefault(msg_id, Cell(msg_id, code))

    def keep_answer(self, question: Message, value: str) -> None:
        """Write what the user typed into the cell, as JupyterLab does."""
        content = {"name": "stdin", "text": f"{question['content']['prompt']} {value}\n"}
        header = {**question["header"], "msg_type": "stream"}
        line = {**question, "header": header, "msg_type": "stream", "content": content, "channel": "iopub"}
        self.cells[question["parent_header"]["msg_id"]].messages.append(line)

    def forget(self) -> None:
        """What has been seen so far."""
        self.messages.clear()
        self.cells.clear()

    async def until(self, is_so: Callable[[], bool], within_s: float = WITHIN_S) -> None:
        """Until something holds; it is looked at again with each message."""
        try:
            async with asyncio.timeout(within_s):
                while not is_so():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"it did not happen; last of {len(self.messages)}:\n{self._newest()}") from None

    def _newest(self) -> str:
        return "\n".join(json.dumps(message, default=repr)[:300] for message in self.messages[-5:])


class FrontEnd(Tab):
    """A tab with one notebook: `connect`, `drop` and `connect` again; a new object is a new tab."""

    def __init__(self, place: Place, kernel_id: str, *, port: int = 0) -> None:
        super().__init__()
        self._place = place
        self.kernel_id = kernel_id
        self.port = port or place.port
        self._answered_seq = 0
        self._last_seq = 0
        self._seen_before = 0
        self.repeated = 0
        self._socket: WebSocketClientConnection | None = None
        self._readings: dict[WebSocketClientConnection, asyncio.Task[None]] = {}

    async def connect(self) -> None:
        address = f"ws://127.0.0.1:{self.port}/api/kernels/{self.kernel_id}/channels?session_id={self.session}"
        headers = {"Authorization": f"token {self._place.token}"}
        request = HTTPRequest(address, headers=headers, connect_timeout=WITHIN_S, request_timeout=WITHIN_S)
        self._seen_before = self._last_seq
        self._socket = await websocket_connect(request, max_message_size=MAX_MESSAGE_BYTES)
        self._socket.on_ping = self._hear_ping  # type: ignore[method-assign]  # tornado's way to listen
        self._readings[self._socket] = asyncio.ensure_future(self._read(self._socket))

    def _hear_ping(self, payload: bytes) -> None:
        """The server asks whether what it wrote has arrived, and is told so by itself; others only keep it alive."""
        *_, seq = payload.split() or [b""]
        if seq.isdigit():
            self._answered_seq = int(seq)
            self._news.set()

    async def settle(self) -> None:
        """Until the server knows that this page has got what it shows."""
        newest = self._last_seq
        await self.until(lambda: self._answered_seq >= newest)
        await asyncio.to_thread(self._place.ask, "GET", "api/status")  # it has heard the answer before it answers this

    async def drop(self) -> None:
        """Close it in good order, and read what was on the way."""
        assert self._socket is not None
        self._socket.close()
        await self.lost()

    async def lost(self) -> None:
        """Until the server has gone from the other end."""
        assert self._socket is not None
        await asyncio.wait_for(self._readings[self._socket], WITHIN_S)

    def abandon(self) -> None:
        """Forget the connection, which stays as it is."""
        self._socket = None

    async def close(self) -> None:
        """The tab is closed, with all connections that it ever had."""
        for connection, reading in self._readings.items():
            connection.close()
            await asyncio.wait_for(reading, WITHIN_S)

    async def _read(self, connection: WebSocketClientConnection) -> None:
        while (data := await connection.read_message()) is not None:
            if connection is self._socket:
                self._take_once(json.loads(data) if isinstance(data, str) else deserialize_binary_message(data))

    def _take_once(self, message: Message) -> None:
        """What a connection that broke had brought, and the server was not told so, comes again with the same seq."""
        seq = message["metadata"].get("jupyter_tpu", {}).get("seq")
        if seq is not None and seq <= self._seen_before:
            self.repeated += 1
            return
        self._last_seq = max(self._last_seq, seq or 0)
        self.take(message)

    async def send(self, channel: str, request: Message) -> None:
        assert self._socket is not None
        await self._socket.write_message(json.dumps({**request, "channel": channel, "buffers": []}))

    async def execute(self, code: str) -> Cell:
        """Ask for a cell to be run."""
        request, cell = self.ask_to_execute(code)
        await self.send("shell", request)
        return cell

    async def run(self, code: str) -> str:
        """What a cell prints, once it is done."""
        cell = await self.execute(code)
        await self.until(lambda: cell.is_done)
        return cell.text()

    def look_at(self, other: Cell) -> Cell:
        """The cell of another tab, empty, as this one sees it."""
        return self.cells.setdefault(other.msg_id, Cell(other.msg_id, other.code))


def open_session(place: Place, path: str = "a.ipynb", kernel_name: str = "") -> str:
    """Start a kernel for a notebook; its id."""
    kernel = {"name": kernel_name or place.kernel_name}
    asked = {"path": path, "name": path, "type": "notebook", "kernel": kernel}
    return str(place.ask("POST", "api/sessions", asked)["kernel"]["id"])
