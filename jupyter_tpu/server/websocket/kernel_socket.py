"""Jupyter Server's connection class for kernels on Cloud TPU nodes; for other kernels, it behaves like the original.

Jupyter Server creates one connection object per WebSocket. For kernels on nodes, this class opens no ZMQ sockets, sends
no requests to check whether the kernel is listening, and buffers nothing while a page is disconnected. Each page reads
its messages from the kernel's record instead.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError
from traitlets import Integer

from jupyter_tpu.errors import JournalUnwritable, KernelFailed
from jupyter_tpu.journal.paths import data_dir
from jupyter_tpu.kernels.provisioner import TPUProvisioner
from jupyter_tpu.models import NodeName
from jupyter_tpu.server.restore.cursors import Cursors
from jupyter_tpu.server.websocket.page_messages import KernelHeaders, PageMessage, to_websocket
from jupyter_tpu.server.websocket.page_session import PageGone, PageSession
from jupyter_tpu.server.websocket.text_limit import TEXT_LIMIT, TextLimit
from jupyter_tpu.server.websocket.too_large import Refusals
from jupyter_tpu.server.websocket.truncation_notices import refusal_notice, text_url, truncation_notice

log = logging.getLogger(__name__)

_CURSORS = "jupyter_tpu_cursors"
_REFUSALS = "jupyter_tpu_refusals"
_CORK: int | None = getattr(socket, "TCP_CORK", None)  # Linux only; joins a write and its ping


def install_kernel_socket(serverapp: Any, settings: dict[str, Any]) -> None:
    """Make `KernelSocket` the server's connection class, unless the user has set a class or a gateway runs the kernels.

    Call this while the server loads extensions. The server ignores this setting in ``jupyter_server_config.d``, and its
    web application copies the class to `settings` before extensions are loaded, so this function sets the class in both
    places.
    """
    name = "kernel_websocket_connection_class"
    if name not in serverapp.config.ServerApp and getattr(serverapp, name) is ZMQChannelsWebsocketConnection:
        setattr(serverapp, name, KernelSocket)
        settings[name] = KernelSocket
    else:
        log.warning(
            "Outputs of kernels on nodes may be lost while a page is closed: %s is the configured connection class.",
            getattr(serverapp, name).__name__,
        )


def open_pages(node: NodeName, endpoint: str) -> int:
    """Return the number of pages connected to kernels on a node."""
    sockets = (each for each in KernelSocket._open_sockets if isinstance(each, KernelSocket))
    return sum(each.shows_kernel_of(node, endpoint) for each in sockets)


class KernelSocket(ZMQChannelsWebsocketConnection):
    """The connection of a page to a kernel on a TPU node."""

    page_text_limit = Integer(
        TEXT_LIMIT,
        min=1,
        config=True,
        help="Maximum number of characters of a cell's printed output that are sent to a page, for kernels on "
        "TPU nodes. For longer output, the page shows how many characters are left out, and the end of "
        "the output. The full output stays on the node.",
    )

    _kernel: TPUProvisioner | None = None
    _page: PageSession | None = None
    _task: asyncio.Task[None] | None = None
    _leaving: PageSession | None = None

    async def prepare(self) -> None:
        """Find the kernel before the WebSocket is accepted, so that an error becomes an HTTP status."""
        self._kernel = await self._find_our_kernel()
        if self._kernel is None:
            await super().prepare()  # type: ignore[no-untyped-call]
            return
        # the original method requests kernel_info here, which would queue behind a running cell
        self.session.key = self.kernel_manager.session.key

    def connect(self) -> Any:
        """Connect the open WebSocket to the kernel.

        This must not wait, because the page's messages are not read until it returns.
        """
        return self._connect(self._kernel) if self._kernel else super().connect()

    def disconnect(self) -> None:  # type: ignore[override]
        """Disconnect when the page or the server closes the WebSocket; a second call has no effect."""
        if self._kernel is None:
            super().disconnect()  # type: ignore[no-untyped-call]
        elif self._page:
            page, self._page = self._page, None
            self._disconnect(page)

    def shows_kernel_of(self, node: NodeName, endpoint: str) -> bool:
        """Return whether the page is connected to a kernel on this node."""
        kernel = self._kernel
        return bool(self._page and kernel and (kernel.node, kernel.endpoint) == (str(node), endpoint))

    def _send_status_message(self, status: str) -> None:
        """Send a state to the page; called by Jupyter Server when it restarts a dead kernel or gives up.

        A restart on a recreated node is sent as "starting". Otherwise, JupyterLab would open a dialog about a kernel
        that "appears to have died", although the notebook already shows what happened to the node.
        """
        if self._kernel and self._kernel.waits_for_node and status == "restarting":
            status = "starting"
        if self._page:
            self._page.send_status(status)
        elif self._kernel is None:
            super()._send_status_message(status)  # type: ignore[no-untyped-call]

    # -- our kernels

    async def _find_our_kernel(self) -> TPUProvisioner | None:
        """Return the provisioner if the kernel is on a node; wait for a starting kernel (``use_pending_kernels``).

        Returns None for a kernel that failed to start, which Jupyter Server reports. A kernel that could not be
        restarted is still returned, because its process may be running.
        """
        ready = self.kernel_manager.ready
        await asyncio.wait([ready if isinstance(ready, asyncio.Future) else asyncio.wrap_future(ready)])
        provisioner = self.kernel_manager.provisioner
        if ready.cancelled() or not isinstance(provisioner, TPUProvisioner):
            return None
        return provisioner if ready.exception() is None or provisioner.has_process else None

    async def _connect(self, kernel: TPUProvisioner) -> None:
        await self._replace_stale_connection()
        # register like the original method, so that Jupyter Server counts connections and reports restarts
        manager = self.multi_kernel_manager
        manager.notify_connect(self.kernel_id)
        manager.add_restart_callback(self.kernel_id, self.on_kernel_restarted)
        manager.add_restart_callback(self.kernel_id, self.on_restart_failed, "dead")
        self._page = page = self._make_page(kernel)
        # an earlier connection of this page may be closing with unsent requests
        for other in self._open_sockets:
            if isinstance(other, KernelSocket) and other._leaving and other.session_key == self.session_key:
                page.take_over(other._leaving)
        self._open_sockets.add(self)
        self.channels = {name: _Channel(partial(self._send, page, name)) for name in ("shell", "control", "stdin")}
        self.websocket_handler.set_nodelay(True)  # pings must not wait for acknowledgements of earlier packets
        _watch_pongs(self.websocket_handler, page)
        self._task = asyncio.create_task(self._open(page))

    async def _replace_stale_connection(self) -> None:
        """Register the page's session and close its earlier connection.

        This must not run in `prepare`: if the page closed during the handshake, its session would stay registered
        forever.
        """
        stale = self._open_sessions.get(f"{self.kernel_id}:{self.session.session}")
        await self._register_session()  # type: ignore[no-untyped-call]
        _retire(stale)

    async def _open(self, page: PageSession) -> None:
        if await self._is_dead_for_good():
            page.send_status("dead")
            page.refuse(KernelFailed("The kernel is not running.", exists=self._why_dead(), hint="Restart the kernel."))
            return
        try:
            await page.open()
        except Exception:
            log.exception("A page could not be connected with kernel %s.", self.kernel_id)
            self.websocket_handler.close()  # the page then reconnects

    def _send(self, page: PageSession, channel: str, parts: Sequence[bytes]) -> None:
        """Send a request from the page; if the kernel was dead, check again whether it is running."""
        page.send_request(channel, parts)
        if page.has_unsent_requests and self._task and self._task.done():
            self._task = asyncio.create_task(self._open(page))

    def _why_dead(self) -> str:
        return str(getattr(self.kernel_manager, "reason", "") or (self._kernel.end if self._kernel else ""))

    async def _is_dead_for_good(self) -> bool:
        """Return whether the kernel is dead and will not be restarted.

        A page that receives the state "dead" stops waiting for the kernel.
        """
        manager = self.kernel_manager
        # after a restart by the user, the server's list briefly still shows "dead", so check the kernel as well
        is_started_again = manager.autorestart and manager.execution_state != "dead"
        return not (is_started_again or await manager.is_alive())

    def _disconnect(self, page: PageSession) -> None:
        manager = self.multi_kernel_manager
        manager.notify_disconnect(self.kernel_id)
        # a newer connection of the same page may have replaced this entry
        if self._open_sessions.get(self.session_key) is self.websocket_handler:
            self._open_sessions.pop(self.session_key)
        if self.kernel_id in manager:
            manager.remove_restart_callback(self.kernel_id, self.on_kernel_restarted)
            manager.remove_restart_callback(self.kernel_id, self.on_restart_failed, "dead")
        self.channels = {}
        page.connection_closed(self.websocket_handler.close_code)
        self._leaving = page
        self._task = asyncio.create_task(self._close(page, self._task))
        for other in self._other_pages():
            other.repeat_question()

    def _other_pages(self) -> list[KernelSocket]:
        """Return the connections of other pages to the same kernel."""
        return [
            other
            for other in self._open_sockets
            if isinstance(other, KernelSocket) and other._page and other.kernel_id == self.kernel_id
        ]

    def repeat_question(self) -> None:
        """Repeat the kernel's input request for this page if the page that received it is closed."""
        if self._page and self._task and self._task.done():
            self._task = asyncio.create_task(self._page.resend_question())

    async def _close(self, page: PageSession, opening: asyncio.Task[None] | None) -> None:
        # requests of a closed page are still sent to the kernel, but a server shutdown doesn't wait for that
        if page.has_unsent_requests:
            self._close_future.set_result(None)
        elif opening:
            opening.cancel()
        if opening:
            await asyncio.wait([opening])
        await page.close()
        self._leaving = None
        self._open_sockets.discard(self)
        if not self._close_future.done():
            self._close_future.set_result(None)

    def _make_page(self, kernel: TPUProvisioner) -> PageSession:
        base_url = self.websocket_handler.base_url
        make_header = KernelHeaders(self.session.msg_header)

        def describe(msg_id: str, left_out_bytes: int, last_text: str) -> Mapping[str, str]:
            return truncation_notice(text_url(base_url, self.kernel_id, msg_id), left_out_bytes, last_text)

        return PageSession(
            kernel,
            _PageSocket(self),
            kernel_id=self.kernel_id,
            session_id=self.session.session,
            # cursors and refusals outlive a connection, so the server stores them, not this object
            cursors=cursors_of(self.websocket_handler.settings),
            refusals=self.websocket_handler.settings.setdefault(_REFUSALS, Refusals()),
            text_limit=TextLimit(make_header, describe, text_limit=self.page_text_limit),
            make_header=make_header,
            is_here=self._is_here,
            refusal_notice=partial(refusal_notice, base_url, self.kernel_id),
        )

    def _is_here(self, session_id: bytes) -> bool:
        return f"{self.kernel_id}:{session_id.decode(errors='replace')}" in self._open_sessions

    def hide_traceback(self, message: PageMessage) -> PageMessage:
        """Return the message without its traceback if ``allow_tracebacks`` is off, as Jupyter Server does."""
        if self.multi_kernel_manager.allow_tracebacks or message.channel != "iopub" or message.msg_type != "error":
            return message
        replaced = {
            "ename": "ExecutionError",
            "evalue": "Execution error",
            "traceback": [self.kernel_manager.traceback_replacement_message],
        }
        return message.with_content(replaced)


class _PageSocket:
    """The `Socket` to which the `PageSession` of a connection writes."""

    def __init__(self, connection: KernelSocket) -> None:
        self._connection = connection
        self._last: asyncio.Future[None] | None = None

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Send all messages that are written in the context together, if possible."""
        self._cork(True)
        try:
            yield
        finally:
            self._cork(False)

    def _cork(self, is_corked: bool) -> None:
        """Delay packets until they are full, if the system supports this."""
        connection: Any = self._connection.websocket_handler.ws_connection
        if connection and _CORK is not None:
            with suppress(OSError, AttributeError):  # the connection is closed, or not a TCP socket
                connection.stream.socket.setsockopt(socket.IPPROTO_TCP, _CORK, is_corked)

    def write(self, message: PageMessage) -> None:
        """Serialise a message and write it."""
        connection = self._connection
        data = to_websocket(connection.hide_traceback(message), connection.subprotocol)
        try:
            self._last = connection.write_message(data, binary=isinstance(data, bytes))
        except WebSocketClosedError as error:
            raise PageGone from error
        self._last.add_done_callback(_retrieve_exception)

    def ping(self, payload: bytes) -> None:
        """Send a WebSocket ping."""
        try:
            self._connection.websocket_handler.ping(payload)
        except (WebSocketClosedError, StreamClosedError) as error:
            raise PageGone from error

    async def drain(self) -> None:
        """Wait until the connection has accepted the last message."""
        try:
            if self._last:
                await asyncio.shield(self._last)
        except WebSocketClosedError as error:
            raise PageGone from error


class _Channel:
    """A stand-in for a ZMQ socket to the kernel; Jupyter's `Session` sends through it."""

    def __init__(self, send: Callable[[Sequence[bytes]], None]) -> None:
        self._send = send

    def send_multipart(self, parts: Sequence[bytes], *_flags: Any, **_options: Any) -> None:
        """Send the parts of a request, as a ZMQ socket would."""
        self._send([bytes(part) for part in parts])


def _retire(stale: Any) -> None:
    """Close the old connection of a page that has reconnected; it must no longer change the page's position."""
    connection = getattr(stale, "connection", None)
    if isinstance(connection, KernelSocket):
        connection.disconnect()


def _watch_pongs(handler: Any, page: PageSession) -> None:
    """Pass pongs to the page's session; Tornado passes pongs only to Jupyter Server's handler."""
    original = handler.on_pong

    def on_pong(payload: bytes) -> None:
        original(payload)
        page.arrived(payload)

    handler.on_pong = on_pong


def cursors_of(settings: dict[str, Any]) -> Cursors:
    """Return the cursors (the positions of pages in records), which all connections of the server share."""
    if _CURSORS not in settings:
        settings[_CURSORS] = Cursors(_cursors_path())
    cursors: Cursors = settings[_CURSORS]
    return cursors


def _cursors_path() -> Path | None:
    try:
        return data_dir() / "kernels" / "cursors.bin"
    except JournalUnwritable as error:
        log.warning("%s", error)
        return None


def _retrieve_exception(write: asyncio.Future[None]) -> None:
    """Mark the exception of a failed write as retrieved, so that asyncio doesn't log a closed connection."""
    if not write.cancelled():
        write.exception()
