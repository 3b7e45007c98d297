"""Parse JSON bodies like Google's front end, with its messages for invalid JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from aiohttp import web
from google.rpc import code_pb2, error_details_pb2

from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.behaviours import assumed, recorded

Violation = tuple[str, str]
"""The path of a field in proto names (empty for the root), and a description of the error."""

LIMIT_BYTES = 10 * 1024 * 1024
"""Maximum size of a body that Google's front end accepts, in bytes (behaviour `body-size`)."""

RECEIVED = "Invalid JSON payload received. "

_SURROGATES = re.compile("[\ud800-\udfff]")
_DIGITS_OF_A_NUMBER = 400  # more than a double has (309 digits), fewer than the limit of Python's int() (4300)
_CONTEXT = 20  # characters that the parser quotes on each side of the error (protobuf json_stream_parser.cc)
# errors of Python's parser → messages of protobuf's parser
_SENTENCES = {
    "Expecting value": "Expected a value.",
    "Expecting property name enclosed in double quotes": "Expected an object key or }.",
    "Illegal trailing comma before end of object": "Expected an object key or }.",
    "Illegal trailing comma before end of array": "Expected a value or ] within an array.",
    "Expecting ':' delimiter": "Expected : between key:value pair.",
    "Extra data": "Parsing terminated before end of input.",
    "Unterminated string starting at": "Closing quote expected in string.",
    "Invalid \\escape": "Invalid escape sequence.",
    "Invalid \\uXXXX escape": "Invalid escape sequence.",
    "Invalid control character at": "Closing quote expected in string.",
}


async def json_object(request: web.Request) -> dict[str, Any]:
    """Return the JSON object in the body, or an empty object if there is no body.

    Raises:
        Refusal: the body is not a JSON object, too large, or of another content type.
    """
    content = await limited_content(request)
    if content.strip():
        _check_content_type(request.content_type, content)
    return object_of(content)


@recorded(
    "body-size",
    "A request body of more than 10 MiB is refused with 400; the message names the limit.",
    source="errors of Google APIs in public issues (litellm's exception mapping, Firestore clients)",
)
async def limited_content(request: web.Request) -> bytes:
    """Return the bytes of the body. A body larger than `LIMIT_BYTES` is rejected and not fully read into memory."""
    received = bytearray()
    try:
        # a body with a Content-Length above the limit is rejected unread
        if (request.content_length or 0) <= LIMIT_BYTES:
            async for chunk in request.content.iter_chunked(65_536):
                received += chunk
                if len(received) > LIMIT_BYTES:
                    break
            else:
                return bytes(received)
    except (web.RequestPayloadError, ConnectionError) as error:  # the body is truncated or has the wrong encoding
        raise _invalid("The body of the request cannot be read.") from error
    raise _invalid(f"Request payload size exceeds the limit: {LIMIT_BYTES} bytes.")


@recorded(
    "form-body",
    "A request body sent as a form is read as query parameters, and every method refuses their names as unknown.",
    source="GoogleCloudPlatform/php-docs-samples#460",
)
@assumed(
    "content-type", "A request body with a content type other than JSON is refused with 400; the text is invented."
)
def _check_content_type(kind: str, content: bytes) -> None:
    if kind == "application/x-www-form-urlencoded":
        name = content.partition(b"=")[0].decode(errors="replace")[:200]
        raise bad_payload([("", unknown_parameter(name))])
    if kind not in ("application/json", "text/json", "application/octet-stream"):  # the last: no type declared
        raise _invalid(f"Content type {kind[:80]!r} is not supported; send application/json.")


def unknown_parameter(name: str) -> str:
    """Return the message for a query parameter that the method does not have."""
    return (
        f'{RECEIVED}Unknown name "{name}": Cannot bind query parameter. '
        f"Field '{name}' could not be found in request message."
    )


@recorded(
    "json-utf8",
    "Bytes that are not valid UTF-8, and unpaired surrogates, are replaced.",
    source="measured on another Google API (public repository, 2026-10-04)",
)
def object_of(content: bytes) -> dict[str, Any]:
    """Parse the JSON object in these bytes, or return an empty object if there are no bytes."""
    text = content.decode(errors="replace")
    if not text.strip():
        return {}
    body = _parsed(text)
    if not isinstance(body, dict):
        raise bad_payload([("", f'{RECEIVED}Unknown name "": Root element must be a message.')])
    return body


@recorded(
    "json-syntax",
    "A request body that is not valid JSON is refused with the parser's message, the text around the error and "
    "a caret below it.",
    source="protobuf json_stream_parser.cc; errors of Google APIs in public repositories",
)
def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise _invalid(RECEIVED + _sentence(error, text)) from error
    except RecursionError as error:
        raise _invalid(f"{RECEIVED}Message too deep. Max recursion depth reached.") from error


def _refuse_constant(word: str) -> Any:
    raise _invalid(f"{RECEIVED}Unexpected token.\n{word}\n^")


def _whole(digits: str) -> int | float:
    """Parse a whole number, even if it is too long for Python's own parser."""
    if len(digits) > _DIGITS_OF_A_NUMBER:
        raise _invalid(f"{RECEIVED}Number exceeds the range of double.\n{digits[:_CONTEXT]}\n^")
    return int(digits) if len(digits) <= 20 else float(digits)  # a 64-bit number has at most 20 characters


def _sentence(error: json.JSONDecodeError, text: str) -> str:
    if error.pos >= len(text.rstrip()):
        return f"Unexpected end of string. {_sentence_of(error, text)}\n\n^"
    begin = max(error.pos - _CONTEXT, 0)
    return f"{_sentence_of(error, text)}\n{text[begin : error.pos + _CONTEXT]}\n{' ' * (error.pos - begin)}^"


def _sentence_of(error: json.JSONDecodeError, text: str) -> str:
    if error.msg == "Expecting ',' delimiter":
        # this is an approximation, because Python's parser doesn't report whether it was in an object or an array
        inside_object = text.rfind("{", 0, error.pos) > text.rfind("[", 0, error.pos)
        return "Expected , or } after key:value pair." if inside_object else "Expected , or ] after array value."
    if error.msg == "Expecting value" and text[error.pos : error.pos + 1].isalpha():
        return "Unexpected token."
    return _SENTENCES.get(error.msg, "Expected a value.")


def whole_characters(text: str) -> str:
    """Return the text without lone surrogates, which a response could not contain."""
    return _SURROGATES.sub("\ufffd", text)


def bad_payload(violations: Sequence[Violation]) -> errors.Refusal:
    """Return one error for all violations, with a detail for each."""
    found = [error_details_pb2.BadRequest.FieldViolation(field=at, description=what) for at, what in violations]
    details = [error_details_pb2.BadRequest(field_violations=found)]
    message = "\n".join(what for _, what in violations)
    return errors.Refusal(errors.status_of(code_pb2.INVALID_ARGUMENT, message, details))


def _invalid(message: str) -> errors.Refusal:
    return errors.Refusal(errors.status_of(code_pb2.INVALID_ARGUMENT, message))
