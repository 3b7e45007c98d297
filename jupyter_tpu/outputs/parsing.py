"""One message of the record, read with suspicion: what a kernel or a client may have garbled is refused, never trusted.

Numbers that JSON cannot carry on (NaN, infinities, integers of thousands of digits) and nesting that could not be
written again are refused too, because what is read here goes out as JSON again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn, cast

_DELIMITER = b"<IDS|MSG>"
# What is read must be written again, some levels deeper, in a place with as much stack.
_HEADROOM = 64
_LONGEST_KEPT = 2000


class Malformed(ValueError):
    """This is no message."""


class Message(NamedTuple):
    """One message; `size` is that of its content in bytes. A tuple, because there are hundreds of thousands of them."""

    seq: int
    kind: str
    header: dict[str, Any]
    parent: dict[str, Any]
    metadata: bytes
    content: dict[str, Any]
    size: int


def parse(seq: int, parts: Sequence[bytes]) -> Message:
    """A multipart message, with or without routing identities and buffers.

    Raises:
        Malformed: its parts are not those of a message.
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
        raise Malformed("no delimiter, or too little behind it")
    return parts[start : start + 4]


def _parent_object(raw: bytes) -> dict[str, Any]:
    return _parsed_before(raw) if len(raw) < _LONGEST_KEPT else json_object(raw)


def json_object(raw: bytes) -> dict[str, Any]:
    """Decode a JSON object.

    Raises:
        Malformed: it is something else, or holds what JSON cannot carry on.
    """
    try:
        text = raw.decode("utf-8", "replace").strip()  # as jupyter_client does
        value, end = _scan_with_headroom(text) if _may_be_deep(raw) else _scan(text, 0)
    except (ValueError, RecursionError, StopIteration) as error:
        raise Malformed(f"not JSON: {raw[:60]!r}") from error
    if end != len(text) or not isinstance(value, dict):
        raise Malformed(f"not a JSON object: {raw[:60]!r}")
    return value


def is_count(value: Any) -> bool:
    """Whether `value` can stand for an execution count: a number that a browser can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _may_be_deep(raw: bytes) -> bool:
    return raw.count(b"[") + raw.count(b"{") > _HEADROOM


def _scan_with_headroom(text: str) -> tuple[Any, int]:
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

_parsed_before = lru_cache(maxsize=64)(json_object)  # all messages of a request have the same parent
