"""Entries: one message of a kernel as it stands in the record, on disk and on the wire alike.

``!IQdBHI`` = body length, seq, time (Unix seconds), channel, number of parts, crc32 of everything else; then the body,
the parts as in `messages`. Because the record travels in slices of its own bytes, live and replayed output are the
same thing, and the checksum finds both a torn tail on disk and a slip on the way.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from mmap import mmap

from jupyter_tpu.wire.frames import ProtocolError
from jupyter_tpu.wire.messages import Channel, pack_parts, unpack_parts

_HEADER = struct.Struct("!IQdBHI")
_CHECKED = struct.Struct("!IQdBH")
HEADER_BYTES = _HEADER.size
MAX_BODY_BYTES = 1024 * 1024 * 1024
LARGEST_BYTES = 64 * 1024 * 1024
"""A client takes no larger entry: its length is known before its body comes."""
SHARED_BYTES = 256 * 1024 * 1024
"""What all streams of a link may hold of entries that are not whole yet, besides `_SMALL_BYTES` each."""

_SMALL_BYTES = 1024 * 1024


class DamagedEntry(ProtocolError):
    """What stands where an entry should be is none, or not the one that was written; others may be sound."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One message: `seq` counts from 1 within a kernel's record, `time` is the agent's clock in Unix seconds."""

    seq: int
    time: float
    channel: int
    parts: list[bytes]


def encode_entry(seq: int, time: float, channel: int, parts: Sequence[bytes]) -> bytes:
    """An entry as bytes."""
    body = pack_parts(parts)
    head = _CHECKED.pack(len(body), seq, time, channel, len(parts))
    return head + struct.pack("!I", zlib.crc32(body, zlib.crc32(head))) + body


def entry_span(data: bytes | bytearray | memoryview | mmap, start: int) -> tuple[int, int] | None:
    """``(seq, bytes)`` of the entry whose header stands at `start`, or None when the header is not whole.

    Raises:
        DamagedEntry: the length is beyond all bounds.
    """
    if len(data) - start < HEADER_BYTES:
        return None
    length, seq = struct.unpack_from("!IQ", data, start)
    if length > MAX_BODY_BYTES:
        raise DamagedEntry(f"an entry of {length} bytes")
    return seq, HEADER_BYTES + length


def decode_entry(data: bytes) -> Entry:
    """The inverse of `encode_entry`.

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
    """How much memory several decoders may use together for large entries."""

    def __init__(self, size: int = SHARED_BYTES) -> None:
        self._left = size

    def take(self, size: int) -> bool:
        """Whether there was room."""
        if size > self._left:
            return False
        self._left -= size
        return True

    def give_back(self, size: int) -> None:
        """The inverse of `take`."""
        self._left += size


class EntryDecoder:
    """Bytes of a record in any pieces → entries, without looking at a byte twice.

    Args:
        room: of a client, which trusts no peer with its memory. In place of an entry that is larger than
            `LARGEST_BYTES`, or finds no room, comes an event ``too_large`` {seq, bytes} with its seq.
    """

    def __init__(self, room: Room | None = None) -> None:
        self._buffer = bytearray()
        self._wanted = HEADER_BYTES
        self._room = room
        self._taken = 0
        self._to_drop = 0

    def feed(self, data: bytes) -> Iterator[Entry]:
        """The entries that `data` completes.

        Raises:
            DamagedEntry: here is none, and where the next one begins is not known.
        """
        dropped = min(self._to_drop, len(data))
        self._to_drop -= dropped
        self._buffer += data[dropped:] if dropped else data
        while (entry := self._next()) is not None:
            yield entry

    def close(self) -> None:
        """Drop what is not whole, and give back its room; a `feed` that is still read, as by its reader, ends."""
        self._buffer.clear()
        self._wanted, self._to_drop = HEADER_BYTES, 0
        self._give_back()

    def _give_back(self) -> None:
        if self._room:
            self._room.give_back(self._taken)
        self._taken = 0

    def _next(self) -> Entry | None:
        if len(self._buffer) < self._wanted:
            return None
        self._wanted = _bytes_needed(self._buffer)
        if self._room and self._wanted > _SMALL_BYTES and not self._has_room(self._room):
            return self._leave_out()
        if len(self._buffer) < self._wanted:
            return None
        entry = decode_entry(bytes(self._buffer[: self._wanted]))
        self._go_on()
        return entry

    def _has_room(self, room: Room) -> bool:
        """Taken once, and kept until the entry is whole."""
        if not self._taken and self._wanted <= LARGEST_BYTES and room.take(self._wanted):
            self._taken = self._wanted
        return self._taken > 0

    def _leave_out(self) -> Entry:
        _, seq, time, *_ = _HEADER.unpack_from(self._buffer)
        event = {"event": "too_large", "seq": seq, "bytes": self._wanted - HEADER_BYTES}
        self._to_drop = max(self._wanted - len(self._buffer), 0)
        self._go_on()
        return Entry(seq, time, Channel.EVENT, [json.dumps(event).encode()])

    def _go_on(self) -> None:
        del self._buffer[: self._wanted]
        self._wanted = HEADER_BYTES
        self._give_back()


def _bytes_needed(data: bytearray) -> int:
    """How much of `data` to wait for: never for gigabytes because a length is damaged, which its parts would tell."""
    span = entry_span(data, 0)
    if span is None:
        return HEADER_BYTES
    length: int = span[1] - HEADER_BYTES
    count: int = _HEADER.unpack_from(data)[4]
    if 4 * count > length:
        raise DamagedEntry(f"an entry of {count} parts in {length} bytes")
    if len(data) < HEADER_BYTES + 4 * count:
        return HEADER_BYTES + 4 * count
    if 4 * count + sum(struct.unpack_from(f"!{count}I", data, HEADER_BYTES)) != length:
        raise DamagedEntry(f"an entry of {length} bytes whose parts have another length")
    return span[1]
