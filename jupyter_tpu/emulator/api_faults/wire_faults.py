"""The responses that a scripted wire fault sends instead of the real response.

Kinds: ``reset`` (the connection breaks), ``empty`` (success without a body), ``html`` (an error page of a load
balancer), ``truncated`` (an incomplete response), ``unknown_enum`` (states that the client does not know).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import grpc
from aiohttp import web
from google.protobuf.message import Message

from jupyter_tpu.emulator.api_faults.altered_answers import UNKNOWN_ENUM, with_unknown_states
from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.errors import WireFault

Rendered = Callable[[Message], dict[str, Any]]
"""A function that converts a response to JSON, as the REST server does."""

Converted = Callable[[Message], Message]
"""A function that converts a response to the client's API version, as the gRPC server does."""

UNKNOWN_NAME = "STATE_OF_A_LATER_VERSION"

BAD_GATEWAY = b"""<!DOCTYPE html>
<html lang=en>
  <meta charset=utf-8>
  <title>Error 502 (Server Error)!!1</title>
  <p><b>502.</b> <ins>That's an error.</ins>
  <p>The server encountered a temporary error and could not complete your request.
  <p>Please try again in 30 seconds. <ins>That's all we know.</ins>
"""


@assumed(
    "html-502",
    "If the front end can't reach a server, it returns 502 with an HTML page; the text of the page is invented.",
)
def rest_answer(fault: WireFault, request: web.Request, rendered: Rendered) -> web.StreamResponse:
    """Return the response that an HTTP client gets."""
    if fault.kind == "html":
        return web.Response(body=BAD_GATEWAY, status=502, content_type="text/html", charset="utf-8")
    if fault.kind == "empty":
        return web.Response(content_type="application/json")
    if fault.kind == "truncated" and fault.answer is not None:
        whole = json.dumps(rendered(fault.answer)).encode()
        return web.Response(body=whole[: len(whole) // 2], content_type="application/json")
    if fault.kind == "unknown_enum" and fault.answer is not None:
        return web.json_response(with_unknown_state_names(rendered(fault.answer)))
    # reset the connection; this also applies to the last two faults above if the call failed, because then there is no
    # response to alter
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def with_unknown_state_names(shown: Any) -> Any:
    """Return the same JSON, with every state replaced by a state name that no client knows."""
    if isinstance(shown, list):
        return [with_unknown_state_names(each) for each in shown]
    if isinstance(shown, dict):
        return {name: _changed(name, value) for name, value in shown.items()}
    return shown


def _changed(name: str, value: Any) -> Any:
    if name == "state" and isinstance(value, str | int):
        return UNKNOWN_NAME if isinstance(value, str) else UNKNOWN_ENUM
    return with_unknown_state_names(value)


async def grpc_answer(fault: WireFault, context: Any, converted: Converted) -> Message | bytes:
    """Return the response that a gRPC client gets; a broken connection or a 502 appears as UNAVAILABLE."""
    if fault.kind == "html":
        return await _unavailable(context, "Received http2 header with status: 502")
    if fault.kind == "empty":
        return b""
    if fault.kind == "truncated" and fault.answer is not None:
        # gRPC frames include their length, so cut the message and not the stream
        return _cut(converted(fault.answer).SerializeToString())
    if fault.kind == "unknown_enum" and fault.answer is not None:
        return with_unknown_states(converted(fault.answer))
    return await _unavailable(context, "Connection reset by peer")


def _cut(whole: bytes) -> bytes:
    """Return bytes that clients can't parse: all but the last byte, or invalid bytes for an empty message."""
    return whole[:-1] or b"\x0a"


async def _unavailable(context: Any, text: str) -> Message:
    await context.abort(grpc.StatusCode.UNAVAILABLE, text)
    raise AssertionError("abort() did not raise an error")


def serialised(answer: Message | bytes) -> bytes:
    """Serialise a gRPC response. Bytes from a fault are already serialised and are returned unchanged."""
    return answer if isinstance(answer, bytes) else answer.SerializeToString()
