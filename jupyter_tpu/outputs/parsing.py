"""Parse and validate one message of the record; a kernel or a client may have sent invalid data.

Parsed values are written as JSON again, so values that JSON can't represent (NaN, infinities, integers with thousands
of digits) and nesting too deep for writing are rejected too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn, cast

_DELIMITER = b"<IDS|MSG>"
# Levels of nesting that may be added around a value before it is written: those of the response, its lists and its
# views.
_HEADROOM = 64
_LONGEST_CACHED = 2000  # in bytes; a parent header of a Jupyter client has a few hundred


class Malformed(ValueError):
    """The parts are not a valid message."""


class Message(NamedTuple):
    """A message; `size` is the size of its content in bytes.

    It is a tuple to save memory, because a record may have hundreds of thousands of messages.
    """

    seq: int
    kind: str
    header: dict[str, Any]
    parent: dict[str, Any]
    metadata: bytes
    content: dict[str, Any]
    size: int


def parse(seq: int, parts: Sequence[bytes]) -> Message:
    """Parse a multipart message, with or without routing identities and buffers.

    Raises:
        Malformed: the parts are not a message.
    """
    header, parent, metadata, content = _json_parts(parts)
    read = json_object(header)
    kind = read.get("msg_type")
    if not isinstance(kind, str):
        raise Malformed("a header without a msg_type")
    return Message(seq, kind, read, _parent_object(parent), metadata, json_object(content), len(content))


def _json_parts(parts: Sequence[bytes]) -> Sequence[bytes]:
    start = 2 + next((place for place, part in enumerate(parts) if part == _DELIMITER), len(parts))
    if start + 4 > len(parts):
        raise Malformed("no delimiter, or too little after it")
    return parts[start : start + 4]


def _parent_object(raw: bytes) -> dict[str, Any]:
    return _json_object_cached(raw) if len(raw) < _LONGEST_CACHED else json_object(raw)


def json_object(raw: bytes) -> dict[str, Any]:
    """Decode a JSON object.

    Raises:
        Malformed: the bytes are not a JSON object, or contain a value that JSON can't represent.
    """
    try:
        text = raw.decode("utf-8", "replace").strip()  # like jupyter_client
        value, end = _scan_with_headroom(text) if _may_be_deep(raw) else _scan(text, 0)
    except (ValueError, RecursionError, StopIteration) as error:
        raise Malformed(f"not JSON: {raw[:60]!r}") from error
    if end != len(text) or not isinstance(value, dict):
        raise Malformed(f"not a JSON object: {raw[:60]!r}")
    return value


def is_count(value: Any) -> bool:
    """Return whether `value` is a valid execution count: an integer that is exact in JavaScript (below 2**53)."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _may_be_deep(raw: bytes) -> bool:
    # a fast test first: few messages have this many brackets, and each scan with headroom makes a copy
    return raw.count(b"[") + raw.count(b"{") > _HEADROOM


def _scan_with_headroom(text: str) -> tuple[Any, int]:
    """Parse a value inside `_HEADROOM` lists, so that parsing fails if the value is nested too deeply to be written."""
    value, end = _scan("[" * _HEADROOM + text + "]" * _HEADROOM, 0)
    for _ in range(_HEADROOM):
        (value,) = value
    return value, end - 2 * _HEADROOM


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise Malformed("an infinite number")
    return value


def _refuse(constant: str) -> NoReturn:
    raise Malformed(f"{constant} is not JSON")


_scan = cast(Any, json.JSONDecoder(parse_float=_finite, parse_constant=_refuse)).scan_once

_json_object_cached = lru_cache(maxsize=64)(json_object)  # all messages of a request have the same parent header
