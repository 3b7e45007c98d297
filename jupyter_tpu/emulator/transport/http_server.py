"""The HTTP server of the REST port: aiohttp's server, but it rejects malformed requests as Google does."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMethod, HttpProcessingError, LineTooLong
from google.rpc import code_pb2

from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.errors import status_of
from jupyter_tpu.emulator.transport.json_answers import refused
from jupyter_tpu.emulator.transport.ports import LOOPBACK
from jupyter_tpu.emulator.transport.rest_server import http_log

_LONGEST_LINE_BYTES = 8190  # aiohttp's default, defined here because the error message quotes it
_NAME = "ESF"
"""The name of Google's front end in its responses."""


class HttpServer:
    """A server that serves an aiohttp application on a loopback port."""

    def __init__(self, app: web.Application) -> None:
        app.on_response_prepare.append(_name_server)
        # when stopping, wait at most one second for open requests
        self._runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1.0)
        self._listening: asyncio.Server | None = None

    async def start(self, port: int) -> int:
        """Start listening and return the port. Raises OSError if the port is in use."""
        await self._runner.setup()
        self._listening = await asyncio.get_running_loop().create_server(self._connection, LOOPBACK, port)
        bound: int = self._listening.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Stop listening and end open requests."""
        if self._listening is not None:
            self._listening.close()
        await self._runner.cleanup()

    def _connection(self) -> _Connection:
        server = self._runner.server
        assert server is not None, "set up before it listens"
        return _Connection(
            server,
            loop=asyncio.get_running_loop(),
            logger=http_log(),
            access_log=None,  # type: ignore[arg-type]  # None is what turns it off
            max_line_size=_LONGEST_LINE_BYTES,
            max_field_size=_LONGEST_LINE_BYTES,
        )


class _Connection(web.RequestHandler):
    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Respond to requests that aiohttp could not parse; pass other errors to aiohttp."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        answer = refused(status_of(code_pb2.INVALID_ARGUMENT, _text_of(exc)))
        answer.headers["Server"] = _NAME
        answer.force_close()
        return answer


@assumed(
    "no-http",
    "A request that is not valid HTTP/1.1 is refused with 400 in the usual error format; the text is invented.",
)
def _text_of(error: HttpProcessingError) -> str:
    if isinstance(error, LineTooLong):
        return f"A line of the request is longer than {_LONGEST_LINE_BYTES} bytes."
    if "HTTPS" in error.message:
        return "This is TLS, but the emulator speaks plain HTTP: use http:// instead of https://."
    if isinstance(error, BadHttpMethod):
        return "The request's method is not an HTTP method."
    return "The request is not valid HTTP/1.1."


async def _name_server(_: web.BaseRequest, answer: Any) -> None:
    answer.headers["Server"] = _NAME
