"""Entries: the format of one message in a kernel's record, the same on disk and on the wire.

``!IQdBHI`` = body length, seq, time (Unix seconds), channel, number of parts, crc32 of all other bytes; then the body,
with the parts as in `multipart`. The record is sent as byte slices, so live and replayed output use the same code. The
checksum detects both an incomplete entry on disk and corruption in transit.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from mmap import mmap

from jupyter_tpu.wire.frames import ProtocolError
from jupyter_tpu.wire.multipart import Channel, pack_parts, unpack_parts

_HEADER = struct.Struct("!IQdBHI")
_CHECKED = struct.Struct("!IQdBH")
HEADER_BYTES = _HEADER.size
MAX_BODY_BYTES = 1024 * 1024 * 1024
"""Maximum size of a body.

Limits how long a reader waits, and how much memory it allocates, because of a damaged length.
"""
LARGEST_BYTES = 64 * 1024 * 1024
"""Size of the largest entry that a client accepts; the client knows the length before the body arrives.

Bounds the client's memory use if the worker is hostile or damaged.
"""
SHARED_BYTES = 256 * 1024 * 1024
"""Memory for incomplete entries of all streams of a link together, in addition to `_SMALL_BYTES` for each stream.

This is enough for four of the largest entries at the same time.
"""

# Entries up to this size, that of a DATA frame, need no reservation: a stream may always buffer one of them.
_SMALL_BYTES = 1024 * 1024


class DamagedEntry(ProtocolError):
    """The bytes at this place are not a valid entry; other entries may be intact."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One message: `seq` counts from 1 within a kernel's record, `time` is the agent's clock in Unix seconds."""

    seq: int
    time: float
    channel: int
    parts: list[bytes]


def encode_entry(seq: int, time: float, channel: int, parts: Sequence[bytes]) -> bytes:
    """Return an entry as bytes; `time` is in Unix seconds."""
    body = pack_parts(parts)
    head = _CHECKED.pack(len(body), seq, time, channel, len(parts))
    return head + struct.pack("!I", zlib.crc32(body, zlib.crc32(head))) + body


def entry_span(data: bytes | bytearray | memoryview | mmap, start: int) -> tuple[int, int] | None:
    """Return ``(seq, length in bytes)`` of the entry whose header is at `start`, or None if the header is incomplete.

    Raises:
        DamagedEntry: the length is above `MAX_BODY_BYTES`.
    """
    if len(data) - start < HEADER_BYTES:
        return None
    length, seq = struct.unpack_from("!IQ", data, start)
    if length > MAX_BODY_BYTES:
        raise DamagedEntry(f"an entry of {length} bytes")
    return seq, HEADER_BYTES + length


def decode_entry(data: bytes) -> Entry:
    """Decode the bytes from `encode_entry`.

    Raises:
        DamagedEntry: the checksum or the parts are wrong.
    """
    if len(data) < HEADER_BYTES:
        raise DamagedEntry(f"an entry of {len(data)} bytes")
    length, seq, time, channel, count, crc = _HEADER.unpack_from(data)
    body = data[HEADER_BYTES:]
    if length != len(body) or crc != zlib.crc32(body, zlib.crc32(data[: _CHECKED.size])):
        raise DamagedEntry(f"entry {seq} is damaged")
    try:
        return Entry(seq, time, channel, unpack_parts(body, count))
    except ProtocolError as error:
        raise DamagedEntry(f"entry {seq}: {error}") from error


class Room:
    """The memory that several decoders share for large entries."""

    def __init__(self, size: int = SHARED_BYTES) -> None:
        self._left = size

    def reserve(self, size: int) -> bool:
        """Reserve `size` bytes; if they are not available, reserve nothing and return False."""
        if size > self._left:
            return False
        self._left -= size
        return True

    def release(self, size: int) -> None:
        """Release bytes that were reserved by `reserve`."""
        self._left += size


class EntryDecoder:
    """A decoder of a record that arrives in pieces of any size; it scans each byte only once.

    Args:
        room: the memory limit. Clients set it, because they must not trust the worker; it is None on the worker, which
            reads its own record. An entry that is larger than `LARGEST_BYTES` or exceeds the memory limit is replaced
            with the event ``too_large`` {seq, bytes}, which has the same seq.
    """

    def __init__(self, room: Room | None = None) -> None:
        self._buffer = bytearray()
        self._wanted = HEADER_BYTES
        self._room = room
        self._reserved = 0
        self._to_drop = 0

    def feed(self, data: bytes) -> Iterator[Entry]:
        """Yield the entries that `data` completes.

        Raises:
            DamagedEntry: the bytes at this position are not a valid entry, so the start of the next entry is unknown.
        """
        # Don't buffer the remaining bytes of an omitted entry, which may be a gigabyte.
        dropped = min(self._to_drop, len(data))
        self._to_drop -= dropped
        self._buffer += data[dropped:] if dropped else data
        while (entry := self._next()) is not None:
            yield entry

    def close(self) -> None:
        """Drop the incomplete entry and release its memory; a `feed` that is still being iterated stops."""
        self._buffer.clear()
        self._wanted, self._to_drop = HEADER_BYTES, 0
        self._release()

    def _release(self) -> None:
        if self._room:
            self._room.release(self._reserved)
        self._reserved = 0

    def _next(self) -> Entry | None:
        if len(self._buffer) < self._wanted:
            return None
        self._wanted = _bytes_needed(self._buffer)
        if self._room and self._wanted > _SMALL_BYTES and not self._has_room(self._room):
            return self._replace_too_large()
        if len(self._buffer) < self._wanted:
            return None
        entry = decode_entry(bytes(self._buffer[: self._wanted]))
        self._advance()
        return entry

    def _has_room(self, room: Room) -> bool:
        # Reserve only once: `_next` gets here again with each piece until the entry is complete.
        if not self._reserved and self._wanted <= LARGEST_BYTES and room.reserve(self._wanted):
            self._reserved = self._wanted
        return self._reserved > 0

    def _replace_too_large(self) -> Entry:
        _, seq, time, *_ = _HEADER.unpack_from(self._buffer)
        event = {"event": "too_large", "seq": seq, "bytes": self._wanted - HEADER_BYTES}
        self._to_drop = max(self._wanted - len(self._buffer), 0)
        self._advance()
        return Entry(seq, time, Channel.EVENT, [json.dumps(event).encode()])

    def _advance(self) -> None:
        del self._buffer[: self._wanted]
        self._wanted = HEADER_BYTES
        self._release()


def _bytes_needed(data: bytearray) -> int:
    """Return how many bytes are needed to decode the next entry or to check its length.

    The length is checked against the lengths of the parts as soon as these have arrived; otherwise a damaged length
    would make the decoder wait for gigabytes.
    """
    span = entry_span(data, 0)
    if span is None:
        return HEADER_BYTES
    length: int = span[1] - HEADER_BYTES
    count: int = _HEADER.unpack_from(data)[4]
    # The number of parts isn't trusted either, so check it before waiting for the table of the parts' lengths.
    if 4 * count > length:
        raise DamagedEntry(f"an entry of {count} parts in {length} bytes")
    if len(data) < HEADER_BYTES + 4 * count:
        return HEADER_BYTES + 4 * count
    if 4 * count + sum(struct.unpack_from(f"!{count}I", data, HEADER_BYTES)) != length:
        raise DamagedEntry(f"an entry of {length} bytes whose parts add up to another length")
    return span[1]
