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
from nbclient import NotebookClient
from nbclient.client import CellExecutionComplete
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

Message = dict[str, Any]
WITHIN_S = 90
MAX_MESSAGE_BYTES = 256 * 1024 * 1024


@dataclass
class Cell:
    """One request and what came of it; `outputs` are as nbclient makes them of the messages."""

    msg_id: str
    code: str
    messages: list[Message] = field(default_factory=list)
    replies: list[Message] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return any(m["content"].get("execution_state") == "idle" for m in self.messages)

    def outputs(self) -> list[Any]:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(self.code)])
        client = NotebookClient(notebook, record_timing=False)
        client.reset_execution_trackers()
        client.clear_before_next_output = False
        for message in self.messages:
            with contextlib.suppress(CellExecutionComplete):
                client.process_message(message, notebook.cells[0], 0)
        return list(notebook.cells[0].outputs)

    def text(self) -> str:
        """What was printed."""
        return "".join(out["text"] for out in self.outputs() if out["output_type"] == "stream")


class FrontEnd:
    """A tab with one notebook: `connect`, `drop` and `connect` again; a new object is a new tab."""

    def __init__(self, place: Place, kernel_id: str, *, port: int = 0) -> None:
        self._place = place
        self.kernel_id = kernel_id
        self.port = port or place.port
        self.session = uuid.uuid4().hex
        self.messages: list[Message] = []
        self.cells: dict[str, Cell] = {}
        self._socket: WebSocketClientConnection | None = None
        self._readings: dict[WebSocketClientConnection, asyncio.Task[None]] = {}
        self._news = asyncio.Event()

    # -- the websocket

    async def connect(self) -> None:
        address = f"ws://127.0.0.1:{self.port}/api/kernels/{self.kernel_id}/channels?session_id={self.session}"
        headers = {"Authorization": f"token {self._place.token}"}
        request = HTTPRequest(address, headers=headers, connect_timeout=WITHIN_S, request_timeout=WITHIN_S)
        self._socket = await websocket_connect(request, max_message_size=MAX_MESSAGE_BYTES)
        self._readings[self._socket] = asyncio.ensure_future(self._read(self._socket))

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
                self._take(json.loads(data))

    def _take(self, message: Message) -> None:
        self.messages.append(message)
        cell = self.cells.get(message["parent_header"].get("msg_id", ""))
        if cell is not None:
            (cell.messages if message["channel"] == "iopub" else cell.replies).append(message)
        self._news.set()

    # -- what the user does

    async def send(self, channel: str, msg_type: str, content: Message, **more: Any) -> str:
        assert self._socket is not None
        msg_id = uuid.uuid4().hex
        header = {"msg_id": msg_id, "msg_type": msg_type, "session": self.session, "username": "", "version": "5.3"}
        header["date"] = datetime.now(UTC).isoformat()
        message = {"channel": channel, "header": header, "parent_header": {}, "metadata": {}, "content": content}
        await self._socket.write_message(json.dumps({**message, "buffers": [], **more}))
        return msg_id

    async def execute(self, code: str) -> Cell:
        """Ask for a cell to be run."""
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": True, "stop_on_error": False}
        msg_id = await self.send("shell", "execute_request", content, metadata={"cellId": uuid.uuid4().hex})
        return self.cells.setdefault(msg_id, Cell(msg_id, code))

    async def run(self, code: str) -> str:
        """What a cell prints, once it is done."""
        cell = await self.execute(code)
        await self.until(lambda: cell.is_done)
        return cell.text()

    def look_at(self, other: Cell) -> Cell:
        """The cell of another tab, empty, as this one sees it."""
        return self.cells.setdefault(other.msg_id, Cell(other.msg_id, other.code))

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Until something holds; it is looked at again with each message."""
        try:
            async with asyncio.timeout(WITHIN_S):
                while not is_so():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"it did not happen; last of {len(self.messages)}:\n{self._newest()}") from None

    def _newest(self) -> str:
        return "\n".join(json.dumps(message)[:300] for message in self.messages[-5:])


def open_session(place: Place, path: str = "a.ipynb") -> str:
    """Start a kernel for a notebook; its id."""
    kernel = {"name": place.kernel_name}
    asked = {"path": path, "name": path, "type": "notebook", "kernel": kernel}
    return str(place.ask("POST", "api/sessions", asked)["kernel"]["id"])
