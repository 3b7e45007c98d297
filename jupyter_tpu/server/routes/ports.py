"""Routes for the TCP ports of a node: list, open and close them, and show the programs that listen on them."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from jupyter_server.auth.decorator import allow_unauthenticated, authorized
from jupyter_server.utils import url_path_join
from tornado import web
from tornado.http1connection import HTTP1Connection, HTTP1ConnectionParameters
from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, RequestStartLine, ResponseStartLine
from tornado.httputil import parse_response_start_line as parse_status
from tornado.iostream import IOStream, StreamClosedError

from jupyter_tpu.errors import AgentBroken, BadInput, NodeNotFound, Text, TpuError, WorkerUnreachable, WrongState
from jupyter_tpu.i18n import _
from jupyter_tpu.kernels.agents.agent_calls import workers_of
from jupyter_tpu.kernels.connections.worker import WorkerKey
from jupyter_tpu.models import Node
from jupyter_tpu.server.ports.headers import (
    Headers,
    cleaned_query,
    request_headers,
    response_headers,
    split_path,
)
from jupyter_tpu.server.routes.bodies import flag_field, json_object, refuse_unknown_fields
from jupyter_tpu.server.routes.metrics import ChipsRoute
from jupyter_tpu.server.routes.nodes import TpuHandler

_FIELDS = ("port", "trusted")
_PATIENCE_S = 30.0  # the first connection to a worker takes a few seconds
_HEAD_BYTES = 64 * 1024  # as tornado's own limit of a request's headers
_PIECE_BYTES = 64 * 1024
_MOST_BYTES = 1 << 40


class PortRoute(ChipsRoute):
    """Base class of the handlers for ports; they are those of the node's first worker."""

    async def worker(self, zone: str, node_id: str) -> tuple[Node, WorkerKey]:
        """Return the node and its first worker.

        Raises:
            NodeNotFound: there is no such node.
            WrongState: the node is not READY.
        """
        opened, node = await self.node(zone, node_id)
        if node.state != "READY":
            raise WrongState(
                Text("The node {node} is {state}, not READY.", node=node_id, state=node.state),
                exists="No program is running on the node.",
            )
        return node, (await asyncio.to_thread(workers_of, node, opened.settings.endpoint))[0]

    async def call(self, node: Node, key: WorkerKey, method: str, params: Mapping[str, Any]) -> None:
        """Call a method of the agent, and respond with the ports that it returns."""
        (answer,) = await self.app.metrics_pool.call([key], method, params, uid=node.uid, patience_s=_PATIENCE_S)
        if answer.error is not None or answer.content is None:
            raise answer.error or WorkerUnreachable(Text("{node} did not respond.", node=node.name.node_id))
        self.write_json({"ports": [self._view(node, row) for row in _rows(answer.content)]})

    def _view(self, node: Node, row: Mapping[str, Any]) -> dict[str, Any]:
        port, is_opened = int(row["port"]), bool(row["opened"])
        page = url_path_join("jupyter-tpu/v1/nodes", node.name.zone, node.name.node_id, "ports", str(port)) + "/"
        return {
            "port": port,
            "opened": is_opened,
            "trusted": self.app.port_tunnels.is_trusted(node.uid, port),
            "processes": [
                {"pid": int(process["pid"]), "command": str(process["command"])} for process in row["processes"]
            ],
            "page": page if is_opened else None,
        }


class PortsHandler(PortRoute):
    """``nodes/{zone}/{node_id}/ports``: the ports on which the user's programs listen, and the opened ones."""

    @web.authenticated
    @authorized
    async def get(self, zone: str, node_id: str) -> None:
        """List the ports."""
        await self.call(*await self.worker(zone, node_id), "list_ports", {})

    @web.authenticated
    @authorized
    async def post(self, zone: str, node_id: str) -> None:
        """Open a port."""
        data = json_object(self.request.body, ", ".join(_FIELDS))
        refuse_unknown_fields(data, _FIELDS)
        port = checked_port(data.get("port"))
        node, key = await self.worker(zone, node_id)
        self.app.port_tunnels.trust(node.uid, port, is_trusted=flag_field(data, "trusted"))
        await self.call(node, key, "open_port", {"port": port})


class PortHandler(PortRoute):
    """``nodes/{zone}/{node_id}/ports/{port}``: one port."""

    @web.authenticated
    @authorized
    async def delete(self, zone: str, node_id: str, port: str) -> None:
        """Close a port; the program keeps running."""
        node, key = await self.worker(zone, node_id)
        number = checked_port(int(port))
        self.app.port_tunnels.forget(node.uid, number)
        await self.call(node, key, "close_port", {"port": number})


class PortPage(PortRoute):
    """``nodes/{zone}/{node_id}/ports/{port}/…``: the program that listens on an opened port.

    The user is authenticated. Pages that the user doesn't trust are shown by `SandboxedPortPage` only.
    """

    async def _serve(self, zone: str, node_id: str, port: str) -> None:
        node, key = await self.worker(zone, node_id)
        number = checked_port(int(port))
        tunnels = self.app.port_tunnels
        if self._is_upgrade() or tunnels.is_trusted(node.uid, number):
            await self.forward(key, number, is_trusted=True)
            return
        query = cleaned_query(self.request.query)
        target = f"/-/{tunnels.secret(node.uid, number)}{self._path}{'?' + query if query else ''}"
        self.redirect(self._prefix + target, status=307)

    @web.authenticated
    @authorized
    async def get(self, zone: str, node_id: str, port: str) -> None:
        """Pass the request to the program."""
        await self._serve(zone, node_id, port)

    head = post = put = patch = delete = get
    options = get  # type: ignore[assignment]

    def check_xsrf_cookie(self) -> None:
        """Accept requests of the program's own page, which can't know Jupyter's XSRF token, as it must not reach it."""
        origin = self.request.headers.get("Origin")
        if origin is None or urlsplit(origin).netloc.lower() != self.request.host.lower():
            super().check_xsrf_cookie()

    async def prepare(self) -> None:  # type: ignore[override]
        """Split the path, before the secret in it is replaced for the log."""
        self._prefix, self._path = split_path(self.request.path)
        if secret := self.path_kwargs.get("secret"):
            for name in ("path", "uri"):
                setattr(self.request, name, str(getattr(self.request, name)).replace(secret, "[secret]", 1))
        await super().prepare()

    def set_default_headers(self) -> None:
        """Set no headers: those of the program apply."""

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Show an error as a page to a browser, and as JSON to other clients."""
        error = kwargs.get("exc_info", (None, None))[1]
        if not isinstance(error, TpuError) or "text/html" not in self.request.headers.get("Accept", ""):
            super().write_error(status_code, **kwargs)
            return
        texts = "".join(f"<p>{html.escape(_(text))}</p>" for text in (error.message, error.exists, error.hint) if text)
        self.set_status(error.status)
        self.set_header("Content-Security-Policy", "default-src 'none'")
        self.finish(
            f"<!doctype html><title>{html.escape(_(error.message))}</title>{texts}", set_content_type="text/html"
        )

    async def forward(self, key: WorkerKey, port: int, *, is_trusted: bool) -> None:
        """Pass the request to the program, and its response to the browser.

        Raises:
            WorkerUnreachable: the program did not respond in time.
            AgentBroken: its response is invalid.
            TpuError: there is no connection to the program.
        """
        self._auto_finish = False  # a response that breaks off must not look complete
        patience_s = self.app.port_timeout
        stream: IOStream | None = None
        try:
            async with asyncio.timeout(patience_s):
                stream = IOStream(await self.app.port_tunnels.open(key, port))
            if self._is_upgrade():
                await self._forward_upgrade(stream, port, patience_s, is_trusted=is_trusted)
            else:
                await self._forward_request(stream, port, patience_s, is_trusted=is_trusted)
        except TimeoutError:
            raise _silent(key, port, patience_s) from None
        finally:
            if stream is not None:
                stream.close()

    async def _forward_request(self, stream: IOStream, port: int, patience_s: float, *, is_trusted: bool) -> None:
        prefix, target = self._target()
        headers = HTTPHeaders()
        for name, value in request_headers(self.request.headers.get_all(), port, prefix):
            headers.add(name, value)
        body = self.request.body
        if body or self.request.method in ("POST", "PUT", "PATCH"):
            headers["Content-Length"] = str(len(body))
        parameters = HTTP1ConnectionParameters(
            no_keep_alive=True, max_header_size=_HEAD_BYTES, max_body_size=_MOST_BYTES, decompress=False
        )
        connection = HTTP1Connection(stream, is_client=True, params=parameters)
        response = _Response(self, stream, port, prefix, is_trusted=is_trusted)
        start = RequestStartLine(str(self.request.method), target, "HTTP/1.1")
        try:
            await connection.write_headers(start, headers, body)
            connection.finish()
        except StreamClosedError as error:
            raise _invalid(port) from error
        reading = asyncio.ensure_future(connection.read_response(response))
        waiting = asyncio.ensure_future(response.started.wait())
        try:
            async with asyncio.timeout(patience_s):
                await asyncio.wait((reading, waiting), return_when=asyncio.FIRST_COMPLETED)
            with suppress(StreamClosedError):  # `is_complete` tells whether that was the end
                await reading
        finally:
            waiting.cancel()
            reading.cancel()
        if response.is_complete:
            with suppress(StreamClosedError):  # the browser has left
                await self.finish()
        elif response.started.is_set():
            self.request.connection.stream.close()  # type: ignore[union-attr]
        else:
            raise _invalid(port)

    async def _forward_upgrade(self, stream: IOStream, port: int, patience_s: float, *, is_trusted: bool) -> None:
        """Open a WebSocket to the program; after that, copy bytes."""
        prefix, target = self._target()
        headers = request_headers(self.request.headers.get_all(), port, prefix, is_upgrade=True)
        try:
            await stream.write(_head(f"GET {target} HTTP/1.1", headers))
            async with asyncio.timeout(patience_s):
                head = await stream.read_until(b"\r\n\r\n", max_bytes=_HEAD_BYTES)
            first, _rest, fields = head.decode("latin1").partition("\r\n")
            status = parse_status(first)
            answer = list(HTTPHeaders.parse(fields).get_all())
        except (StreamClosedError, ValueError, web.HTTPError) as error:
            raise _invalid(port) from error
        if status.code != 101:
            raise BadInput(
                Text(
                    "The program on port {port} refused the WebSocket with status {status}.",
                    port=port,
                    status=status.code,
                )
            )
        passed = response_headers(answer, port, prefix, is_trusted=is_trusted)
        browser = self.detach()
        await browser.write(_head(first, [*passed, ("Connection", "Upgrade"), ("Upgrade", "websocket")]))
        copies = [asyncio.ensure_future(_copy(browser, stream)), asyncio.ensure_future(_copy(stream, browser))]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            browser.close()
            stream.close()
            await asyncio.gather(*copies, return_exceptions=True)

    def _target(self) -> tuple[str, str]:
        """Return the path of the port on this server, and the program's own path with its query."""
        query = cleaned_query(self.request.query)
        return self._prefix, f"{self._path}?{query}" if query else self._path

    def _is_upgrade(self) -> bool:
        return self.request.method == "GET" and self.request.headers.get("Upgrade", "").lower() == "websocket"


class SandboxedPortPage(PortPage):
    """``nodes/{zone}/{node_id}/ports/{port}/-/{secret}/…``: the same for pages that the user doesn't trust.

    The browser sends no cookies with their requests, so the secret in the path authenticates them. They get the origin
    "null", and with it no access to anything else on this server.
    """

    @allow_unauthenticated
    async def get(self, zone: str, node_id: str, port: str, secret: str) -> None:
        """Pass the request to the program."""
        node, key = await self.worker(zone, node_id)
        if not self.app.port_tunnels.is_secret(node.uid, int(port), secret):
            raise NodeNotFound(
                "The address of this page is no longer valid.",
                hint="Open the address of the port again, which ends in /ports/PORT/.",
            )
        if self.request.method == "OPTIONS" and "Access-Control-Request-Method" in self.request.headers:
            self._allow()
            return
        await self.forward(key, int(port), is_trusted=False)

    head = post = put = patch = delete = get
    options = get

    def check_origin(self, origin_to_satisfy_tornado: str = "") -> bool:  # noqa: ARG002 - the server's interface
        """Accept only requests of sandboxed pages, and of clients that are no browsers."""
        origin = self.request.headers.get("Origin")
        return origin in (None, "null") or urlsplit(origin or "").netloc.lower() == self.request.host.lower()

    def check_xsrf_cookie(self) -> None:
        """Check nothing: the secret authenticates the request, and no cookie does."""

    def _allow(self) -> None:
        self.set_header("Access-Control-Allow-Origin", "null")
        for asked, allowed in (("Method", "Methods"), ("Headers", "Headers")):
            if value := self.request.headers.get(f"Access-Control-Request-{asked}"):
                self.set_header(f"Access-Control-Allow-{allowed}", value)
        self.set_status(204)
        self.finish()


class _Response(HTTPMessageDelegate):
    """Passes the response of a program to the browser while it arrives.

    Attributes:
        started: set when the status and the headers have arrived.
        is_complete: whether all of it has arrived.
    """

    def __init__(self, handler: PortPage, stream: IOStream, port: int, prefix: str, *, is_trusted: bool) -> None:
        self._handler, self._stream = handler, stream
        self._port, self._prefix, self._is_trusted = port, prefix, is_trusted
        self.started = asyncio.Event()
        self.is_complete = False

    def headers_received(self, start_line: Any, headers: HTTPHeaders) -> Any:
        """Send the status and the headers."""
        assert isinstance(start_line, ResponseStartLine)
        handler = self._handler
        handler.clear()
        for name in ("Content-Type", "Server", "Date"):
            handler.clear_header(name)
        handler.set_status(start_line.code, start_line.reason)
        for name, value in response_headers(headers.get_all(), self._port, self._prefix, is_trusted=self._is_trusted):
            handler.add_header(name, value)
        self.started.set()
        return self._flush()

    def data_received(self, chunk: bytes) -> Any:
        """Send a piece; the next one is read when the browser has taken it."""
        self._handler.write(chunk)
        return self._flush()

    async def _flush(self) -> None:
        try:
            await self._handler.flush()
        except StreamClosedError:  # the browser has left
            self._stream.close()

    def finish(self) -> None:
        """Note that the response is complete."""
        self.is_complete = True


async def _copy(source: IOStream, target: IOStream) -> None:
    try:
        while True:
            await target.write(await source.read_bytes(_PIECE_BYTES, partial=True))
    except StreamClosedError:
        pass


def _head(first: str, headers: Headers) -> bytes:
    lines = [first, *(f"{name}: {value}" for name, value in headers)]
    if any("\r" in line or "\n" in line for line in lines):
        raise BadInput("The request contains a line break in a header.")
    return "\r\n".join([*lines, "", ""]).encode("latin1")


def _rows(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows = content.get("ports")
    try:
        assert isinstance(rows, list)
        for row in rows:
            checked_port(row["port"])
            assert all(type(process["pid"]) is int for process in row["processes"])
            assert "opened" in row
    except (AssertionError, KeyError, TypeError, BadInput) as error:
        raise AgentBroken("The list of ports of the node is invalid.", raw=str(content)[:500]) from error
    return rows


def _silent(key: WorkerKey, port: int, seconds: float) -> TpuError:
    return WorkerUnreachable(
        Text(
            "The program on port {port} of {node} did not respond within {seconds} s.",
            port=port,
            node=key.node.node_id,
            seconds=f"{seconds:g}",
        ),
        exists="It keeps running on the node.",
        hint="Reload the page, or look at the program's output.",
    )


def _invalid(port: int) -> TpuError:
    return AgentBroken(
        Text("The program on port {port} closed the connection without a valid HTTP response.", port=port),
        hint="Check that it is a web server. A server with HTTPS is not supported.",
    )


def checked_port(value: Any) -> int:
    """Return `value` if it is the number of a port.

    Raises:
        BadInput: it is not.
    """
    if type(value) is not int or not 0 < value < 65536:
        raise BadInput("A port is a whole number from 1 to 65535.")
    return value


_PORT = r"/jupyter-tpu/v1/nodes/(?P<zone>[^/]+)/(?P<node_id>[^/]+)/ports"
_NUMBER = r"/(?P<port>[0-9]{1,5})"

PORT_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    (_PORT, PortsHandler),
    (_PORT + _NUMBER, PortHandler),
)
"""The path pattern (under the server's base URL) and handler of each route."""

PORT_PAGES: tuple[tuple[str, type[TpuHandler]], ...] = (
    (_PORT + _NUMBER + r"/-/(?P<secret>[A-Za-z0-9_-]+)/.*", SandboxedPortPage),
    (_PORT + _NUMBER + r"/.*", PortPage),
)
"""The same for the pages of programs, which are no part of our REST API."""
