"""Multipart ZMQ messages as bytes: channel, number of parts, length of each part, then the parts unchanged."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum

from jupyter_tpu.wire.frames import ProtocolError

_HEAD = struct.Struct("!BH")
MAX_PARTS = 0xFFFF
"""Maximum number of parts in a message: the number has 16 bits on the wire."""


class Channel(IntEnum):
    """The kernel channel of a message. A client ignores channels that it does not know."""

    SHELL = 0
    CONTROL = 1
    STDIN = 2
    IOPUB = 3
    EVENT = 4  # the agent's own messages about the kernel: one part, JSON
    REQUEST = 5  # a client's request as forwarded: a complete execute_request, an input_reply without a password
    TERMINAL = 6  # a terminal's output: one part, unchanged bytes


def channel_name(channel: int) -> str:
    """Return the channel's name in lower case, or a name such as ``channel-9`` for an unknown channel."""
    return Channel(channel).name.lower() if channel in Channel._value2member_map_ else f"channel-{channel}"


def pack_parts(parts: Sequence[bytes]) -> bytes:
    """Return the parts' lengths, 32 bits each, followed by the parts."""
    return b"".join((struct.pack(f"!{len(parts)}I", *map(len, parts)), *parts))


def unpack_parts(body: bytes, count: int) -> list[bytes]:
    """Decode `count` parts from `pack_parts`.

    Raises:
        ProtocolError: the lengths do not match the body.
    """
    position = 4 * count
    if position > len(body):
        raise ProtocolError(f"{count} parts do not fit in {len(body)} bytes")
    lengths = struct.unpack_from(f"!{count}I", body)
    if position + sum(lengths) != len(body):
        raise ProtocolError("the lengths of the parts do not add up")
    parts = []
    for length in lengths:
        parts.append(body[position : position + length])
        position += length
    return parts


def encode_request(channel: Channel, parts: Sequence[bytes]) -> bytes:
    """Return the payload of a REQUEST frame."""
    return _HEAD.pack(channel, len(parts)) + pack_parts(parts)


def decode_request(payload: bytes) -> tuple[Channel, list[bytes]]:
    """Decode the bytes from `encode_request`.

    Raises:
        ProtocolError: the payload is not a message for a kernel.
    """
    if len(payload) < _HEAD.size:
        raise ProtocolError("a request without a head")
    channel, count = _HEAD.unpack_from(payload)
    if channel not in (Channel.SHELL, Channel.CONTROL, Channel.STDIN) or not count:
        raise ProtocolError(f"a request for channel {channel} with {count} parts")
    return Channel(channel), unpack_parts(payload[_HEAD.size :], count)
