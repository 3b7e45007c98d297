"""Features of all Google REST APIs: long GET requests sent as POST, partial responses and batches."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Iterator
from email.parser import BytesParser
from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp import web
from google.rpc import code_pb2
from multidict import CIMultiDict
from yarl import URL

from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.resources.errors import Refusal, status_of
from jupyter_tpu.emulator.transport.field_masks import masked, parse_mask
from jupyter_tpu.emulator.transport.json_answers import printed, refused
from jupyter_tpu.emulator.transport.ports import LOOPBACK

BATCH = r"/{path:batch(/.*)?}"
MOST_CALLS = 1000  # assumed (behaviour `batch-size`)
_LONGEST_QUERY_BYTES = 1024 * 1024  # our choice; bounds the memory of a request whose parameters are its body
_NOT_PASSED_ON = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def google_front(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Apply method overrides and field masks to requests to Google's APIs, but not to the control API."""
    if request.path.startswith("/emulator/"):
        return await handler(request)
    try:
        request = await _overridden(request)
        mask = parse_mask(request.query["fields"]) if request.query.get("fields") else None
    except Refusal as refusal:
        return refused(refusal.status)
    answer = await handler(request)
    # a mask doesn't apply to an error, and a stream or an empty body has no fields
    if mask is None or answer.status != HTTPStatus.OK or not isinstance(answer, web.Response) or not answer.text:
        return answer
    is_pretty = request.query.get("prettyPrint", "true").lower() != "false"
    return printed(masked(json.loads(answer.text), mask), is_pretty=is_pretty)


@documented(
    "method-override",
    "A POST with the header X-HTTP-Method-Override: GET is treated as a GET, with its parameters in the body. "
    "Clients use this if the URL would exceed 2,048 characters. PUT, PATCH and DELETE work too.",
    source="google-api-python-client 2.202.0, http.py; cloud.google.com/apis/docs/http",
)
async def _overridden(request: web.Request) -> web.Request:
    method = request.headers.get("X-HTTP-Method-Override", "").upper()
    if request.method != "POST" or not method or method == "POST":
        return request
    if method not in ("GET", "PUT", "PATCH", "DELETE"):
        raise Refusal(status_of(code_pb2.INVALID_ARGUMENT, f"Invalid method override {method[:20]}"))
    if method != "GET":
        return request.clone(method=method)
    # collect the body here, because a request can't be cloned after read()
    sent = bytearray()
    async for piece in request.content.iter_any():
        sent += piece
        if len(sent) > _LONGEST_QUERY_BYTES:
            raise Refusal(status_of(code_pb2.INVALID_ARGUMENT, "The parameters in the body are too long."))
    query = "&".join(filter(None, (request.rel_url.raw_query_string, sent.decode(errors="replace"))))
    url = URL(f"{request.rel_url.raw_path}?{query}", encoded=True)
    headers = request.headers.copy()
    headers.popall("Content-Length", None)
    headers.popall("Content-Type", None)
    return request.clone(method="GET", rel_url=url, headers=headers)


class Batches:
    """Handler that performs the calls in a multipart request in order, as if each had been sent separately."""

    def add_to(self, app: web.Application) -> None:
        """Serve ``/batch``."""
        app.router.add_post(BATCH, self.handle)

    @documented(
        "batch",
        "POST /batch takes calls to any of the APIs as parts of type application/http, and responds to each part "
        "separately.",
        source="cloud.google.com/compute/docs/api/how-tos/batch; google-api-python-client 2.202.0, http.py",
    )
    @assumed("batch-size", "A batch has at most 1,000 calls, which are performed in order.")
    async def handle(self, request: web.Request) -> web.Response:
        """Handle a batch request: send each of its calls to this server, so that each call passes the usual checks."""
        try:
            calls = list(_calls_in(request.headers.get("Content-Type", ""), await request.read()))
        except ValueError as error:
            return refused(status_of(code_pb2.INVALID_ARGUMENT, f"Failed to parse batch request: {error}"))
        assert request.transport is not None, "its caller was checked"
        here = f"http://{LOOPBACK}:{request.transport.get_extra_info('sockname')[1]}"
        token = request.headers.get("Authorization")
        boundary = f"batch_{secrets.token_hex(8)}"
        parts = []
        async with aiohttp.ClientSession(auto_decompress=False, trust_env=False) as session:
            for content_id, verb, path, headers, body in calls:
                # the batch's token authorises parts without their own token
                if token and "Authorization" not in headers:
                    headers["Authorization"] = token
                async with session.request(verb, URL(here + path, encoded=True), headers=headers, data=body) as answer:
                    text = await answer.text()
                    head = f"HTTP/1.1 {answer.status} {answer.reason}\r\nContent-Type: {answer.headers['Content-Type']}"
                own = f"Content-Type: application/http\r\nContent-ID: {content_id}"
                parts.append(f"--{boundary}\r\n{own}\r\n\r\n{head}\r\n\r\n{text}\r\n")
        text = "".join(parts) + f"--{boundary}--\r\n"
        return web.Response(body=text.encode(), headers={"Content-Type": f"multipart/mixed; boundary={boundary}"})


Call = tuple[str, str, str, CIMultiDict[str], bytes]


def _calls_in(content_type: str, body: bytes) -> Iterator[Call]:
    """Yield the calls in a batch request. Raises ValueError if the request is invalid.

    A call is a tuple: content id of its response, verb, path, headers and body.
    """
    message = BytesParser().parsebytes(b"Content-Type: " + content_type.encode("latin-1") + b"\r\n\r\n" + body)
    parts: list[Any] = list(message.get_payload()) if message.is_multipart() else []
    if not 0 < len(parts) <= MOST_CALLS:
        raise ValueError(f"a batch must be multipart/mixed, with 1 to {MOST_CALLS} parts")
    for part in parts:
        raw = part.get_payload(decode=True) or b""
        # without the request line, the email parser can read HTTP headers
        line, _, rest = raw.lstrip(b"\r\n").partition(b"\n")
        request_line = line.decode("latin-1").split()
        if len(request_line) < 2 or not request_line[1].startswith("/") or request_line[1].startswith("/batch"):
            raise ValueError("a part must begin with a line such as GET /v2/projects/p/locations HTTP/1.1")
        inner = BytesParser().parsebytes(rest)
        headers = CIMultiDict({name: str(value) for name, value in inner.items() if name.lower() not in _NOT_PASSED_ON})
        content = inner.get_payload(decode=True)
        # Content-ID is a header of the MIME part, so even a call without a body has it
        sent = content if isinstance(content, bytes) else b""
        yield _answer_id(str(part.get("Content-ID", ""))), request_line[0], request_line[1], headers, sent


def _answer_id(content_id: str) -> str:
    return f"<response-{content_id.strip().strip('<>')}>"
