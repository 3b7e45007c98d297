"""The WebSocket of a page to a terminal on a node, with terminado's messages.

Messages are JSON arrays: ``["setup", {}]``, ``["stdout", text, seq]`` and ``["disconnect", 1]`` to the page, and
``["stdin", text]`` and ``["set_size", rows, columns, …]`` from it. `seq` is our addition. A page that reconnects sends
the last one as ``?from=``, and continues there; any other page first gets a reset and the last lines.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from typing import Any, ClassVar, cast

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from jupyter_server.extension.handler import ExtensionHandlerMixin
from tornado import web
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from jupyter_tpu.errors import TpuError
from jupyter_tpu.kernels.agents.agent_calls import first_worker
from jupyter_tpu.kernels.agents.terminal_stream import TerminalStream
from jupyter_tpu.kernels.connections.worker import WorkerKey
from jupyter_tpu.models import NodeName

# Sequences with which a program asks the terminal a question, such as its kind or the cursor's position. In old output
# they are left out: the page would answer again, and the shell would take the answer for typed text.
_QUESTIONS = re.compile(
    "\x1b\\[[>=?]?[0-9;]*(?:[cn]|\\$p|q)|\x1b\\][0-9;]*;\\?(?:\x07|\x1b\\\\)|\x1bP[+$]q[^\x1b]*\x1b\\\\"
)
_LARGEST_SIZE = 10_000


def open_terminals(node: NodeName, endpoint: str) -> int:
    """Return the number of pages that are connected to a node's terminals."""
    return sum((each.key.node, each.key.endpoint) == (node, endpoint) for each in TerminalSocket.open_sockets)


class TerminalSocket(ExtensionHandlerMixin, WebSocketMixin, WebSocketHandler, JupyterHandler):
    """``nodes/{zone}/{node_id}/terminals/websocket/{terminal_id}``: a page's connection to a terminal."""

    auth_resource = "terminals"
    open_sockets: ClassVar[set[TerminalSocket]] = set()

    key: WorkerKey
    _stream: TerminalStream | None = None
    _pump: asyncio.Task[None] | None = None
    _size: tuple[int, int] | None = None

    def set_default_headers(self) -> None:
        """Set no headers, because they don't apply to a WebSocket."""

    @ws_authenticated
    async def get(self, zone: str, node_id: str, terminal_id: str) -> None:
        """Accept the connection from a user who may use terminals.

        Raises:
            web.HTTPError: the user may not use terminals, or the node's cloud can't be used.
        """
        user, resource = self.current_user, self.auth_resource
        if not await ensure_async(self.authorizer.is_authorized(self, user, "execute", resource)):
            raise web.HTTPError(403)
        try:
            opened = await cast(Any, self.extensionapp).fleet.get()
            name = NodeName(project=opened.settings.project, zone=zone, node_id=node_id)
        except TpuError as error:
            raise web.HTTPError(error.status, log_message=str(error)) from error
        self.key = first_worker(str(name), opened.settings.endpoint)
        self._terminal_id = terminal_id
        await cast(Any, super().get(zone, node_id, terminal_id))

    async def open(self, *_args: str, **_kwargs: str) -> None:
        """Connect to the terminal; called when the WebSocket is open."""
        super().open()
        seen = self.get_argument("from", "")
        from_seq = int(seen) + 1 if seen.isascii() and seen.isdecimal() and len(seen) < 19 else None
        self.open_sockets.add(self)
        self._stream = TerminalStream(self.key, self._terminal_id)
        await self._send(["setup", {}])
        self._pump = asyncio.create_task(self._run(self._stream, from_seq))

    async def _run(self, stream: TerminalStream, from_seq: int | None) -> None:
        """Send the terminal's output to the page until either has ended."""
        try:
            await stream.open(from_seq)
            self._resize()
            while piece := await stream.read():
                text = piece.data.decode(errors="replace")
                await self._send(["stdout", _QUESTIONS.sub("", text) if piece.is_old else text, piece.seq])
            await self._send(["disconnect", 1])
            self.close()
        except (WebSocketClosedError, StreamClosedError):
            pass
        except TpuError as error:
            self.log.warning("The terminal %s on %s can't be reached: %s", self._terminal_id, self.key.node, error)
            self.close(1011, "the node can't be reached")
        finally:
            await stream.close()

    async def _send(self, message: list[Any]) -> None:
        await self.write_message(json.dumps(message))

    def on_message(self, message: str | bytes) -> None:
        """Pass on a message of the page; ignore what is not valid."""
        with suppress(ValueError, TypeError, IndexError, RecursionError):
            kind, *content = json.loads(message)
            if kind == "stdin" and isinstance(content[0], str) and self._stream is not None:
                with suppress(TpuError):
                    self._stream.send(content[0])
            elif kind == "set_size":
                rows, columns = (min(int(each), _LARGEST_SIZE) for each in content[:2])
                self._size = (rows, columns) if rows > 0 and columns > 0 else self._size
                self._resize()

    def _resize(self) -> None:
        """Set the terminal's size to the largest that fits on all pages that show it, as terminado does."""
        same = [each for each in self.open_sockets if (each.key, each._terminal_id) == (self.key, self._terminal_id)]
        sizes = [each._size for each in same if each._size is not None]
        if sizes and (stream := same[0]._stream) is not None:
            stream.resize(min(rows for rows, _ in sizes), min(columns for _, columns in sizes))

    def on_close(self) -> None:
        """Disconnect from the terminal; its shell keeps running."""
        super().on_close()
        self.open_sockets.discard(self)
        self._resize()
        if self._pump is not None:
            self._pump.cancel()


TERMINAL_SOCKET_ROUTES: tuple[tuple[str, type[TerminalSocket]], ...] = (
    (
        r"/jupyter-tpu/v1/nodes/(?P<zone>[^/]+)/(?P<node_id>[^/]+)/terminals/websocket/(?P<terminal_id>\w+)",
        TerminalSocket,
    ),
)
"""The path pattern and handler of the WebSocket."""
