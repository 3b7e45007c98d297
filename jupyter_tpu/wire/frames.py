"""Frames: the envelope of everything that passes between client and agent.

A header of 17 bytes, ``!IBIQ`` = payload length, kind, stream, number, then the payload. Stream 0 is the link itself;
other streams are chosen by the client and stand for one attached kernel each. What *number* means depends on the kind.
Each kind has its own limit, so that a peer gone mad cannot make us allocate what it likes. A kind that is not known, or
not the peer's to send, ends the connection: nobody sends a kind that the other side has not said it accepts (`hello`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

_HEADER = struct.Struct("!IBIQ")
HEADER_BYTES = _HEADER.size

SLICE_BYTES = 256 * 1024
"""How much of a record one DATA frame carries: control frames can pass between any two."""

JSON_BYTES = 16 * 1024 * 1024
REQUEST_BYTES = 128 * 1024 * 1024
"""The largest message that a client can send to a kernel."""


class ProtocolError(Exception):
    """The peer broke the protocol; the connection cannot be used any more."""


class Kind(IntEnum):
    """What a frame says; *number* in brackets."""

    HELLO = 1  # both: JSON, the first frame in each direction
    CALL = 2  # client: JSON {method, params} [the call's number]
    RESULT = 3  # agent: JSON {result} or {error} [the call's number]
    ATTACH = 4  # client: JSON {kernel_id, ages: [[request's number, s]]} [first seq wanted]; opens the stream
    POSITION = 5  # agent: JSON {seq} [offset]: the record's entry `seq` starts at this offset of the stream
    DATA = 6  # agent: a slice of the record [its offset]
    ACK = 7  # client: [offset up to which data was received]
    HOLD = 8  # client: [1 pause the stream, 0 go on]
    DETACH = 9  # client: end of the stream
    REFUSED = 10  # agent: JSON {error}; the stream does not exist, or no longer
    REQUEST = 11  # client: a message for the kernel [the request's number]
    REQACK = 12  # agent: the request is in the agent's hands or was seen before [its number]
    PING = 13  # client: a sign of life, please [any number]
    PONG = 14  # agent: here it is [the same number]
    EXPRESS = 15  # agent: one entry of the record, ahead of its turn [its seq]; only to clients that accept "express"
    NOTICE = 16  # agent: JSON {spare}, news of the worker; only to clients that accept "notice"


_LIMITS = {
    Kind.HELLO: 64 * 1024,
    Kind.CALL: JSON_BYTES,
    Kind.RESULT: JSON_BYTES,
    Kind.ATTACH: 64 * 1024,
    Kind.POSITION: 64 * 1024,
    Kind.DATA: 1024 * 1024,
    Kind.REFUSED: 64 * 1024,
    Kind.REQUEST: REQUEST_BYTES,
    Kind.EXPRESS: 1024 * 1024,
    Kind.NOTICE: 1024 * 1024,
}

FROM_CLIENT = frozenset({Kind.HELLO, Kind.CALL, Kind.ATTACH, Kind.ACK, Kind.HOLD, Kind.DETACH, Kind.REQUEST, Kind.PING})
FROM_AGENT = (frozenset(Kind) - FROM_CLIENT) | {Kind.HELLO}


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it was received."""

    kind: Kind
    stream: int = 0
    number: int = 0
    payload: bytes = b""

    def json(self) -> dict[str, Any]:
        """The payload as a JSON object.

        Raises:
            ProtocolError: it is something else.
        """
        return json_object(self.payload)


def json_object(payload: bytes) -> dict[str, Any]:
    """Decode bytes that must be a JSON object; anything else is a `ProtocolError`."""
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {payload[:60]!r}") from error
    if not isinstance(value, dict):
        raise ProtocolError(f"not a JSON object: {payload[:60]!r}")
    return value


def encode_frame(kind: Kind, stream: int = 0, number: int = 0, payload: bytes = b"") -> bytes:
    """A frame as bytes."""
    return _HEADER.pack(len(payload), kind, stream, number) + payload


def encode_json(kind: Kind, content: Mapping[str, Any], stream: int = 0, number: int = 0) -> bytes:
    """A frame with a JSON payload as bytes."""
    return encode_frame(kind, stream, number, json.dumps(content).encode())


class FrameDecoder:
    """Bytes in any pieces → frames. Raises nothing but `ProtocolError`, and after one stays broken.

    Args:
        accepts: the kinds the peer may send.
    """

    def __init__(self, accepts: frozenset[Kind]) -> None:
        self._accepts = accepts
        self._buffer = bytearray()
        self._broken = ""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that `data` completes.

        Raises:
            ProtocolError: the peer does not speak this protocol.
        """
        if self._broken:
            raise ProtocolError(self._broken)
        self._buffer += data
        start = 0
        try:
            while (end := self._end_of_frame(start)) <= len(self._buffer):
                yield self._frame(start, end)
                start = end
        except ProtocolError as error:
            self._broken = str(error)
            raise
        finally:
            del self._buffer[:start]

    def _end_of_frame(self, start: int) -> int:
        if len(self._buffer) - start < HEADER_BYTES:
            return start + HEADER_BYTES
        length, kind, _, _ = _HEADER.unpack_from(self._buffer, start)
        if kind not in self._accepts:
            raise ProtocolError(f"a frame of kind {kind} was not expected: {bytes(self._buffer[start : start + 60])!r}")
        if length > _LIMITS.get(kind, 0):
            raise ProtocolError(f"a {Kind(kind).name} frame of {length} bytes is larger than agreed")
        return start + HEADER_BYTES + int(length)

    def _frame(self, start: int, end: int) -> Frame:
        _, kind, stream, number = _HEADER.unpack_from(self._buffer, start)
        return Frame(Kind(kind), stream, number, bytes(self._buffer[start + HEADER_BYTES : end]))
