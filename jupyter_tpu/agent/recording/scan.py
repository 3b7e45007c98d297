"""Which parts of a record's bytes are sound: entries whose checksum is right and whose seqs rise.

Disks lose tails and flip bits. What is damaged is left out, and what stands behind it is found again by the seq that
every entry carries.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap

from jupyter_tpu.wire.entries import HEADER_BYTES

_HEAD = struct.Struct("!IQdBHI")
_CHECKED_BYTES = HEADER_BYTES - 4
_SEQ_AT = 4


@dataclass(frozen=True, slots=True)
class Found:
    """A sound entry: where it is, its seq and its size."""

    at: int
    seq: int
    size: int


def sound_entries(data: mmap, seq: int, limit: int) -> Iterator[Found]:
    """The sound entries in the first `limit` bytes; the first has at least this `seq`."""
    at: int | None = 0
    while at is not None and at < limit:
        entry = _entry(data, at, seq, limit)
        if entry is None:
            at = _next_place(data, at + 1, seq, limit)
        else:
            yield entry
            at, seq = at + entry.size, entry.seq + 1


def is_torn(data: mmap, at: int, seq: int, limit: int) -> bool:
    """Whether what is at the end is the beginning of entry `seq`, as a write that was cut short leaves it."""
    rest = limit - at
    if rest < HEADER_BYTES:
        return rest < _SEQ_AT + 8 or struct.unpack_from("!Q", data, at + _SEQ_AT) == (seq,)
    length, found, _, _, count, _ = _HEAD.unpack_from(data, at)
    if found != seq or HEADER_BYTES + length <= rest:
        return False
    return rest < HEADER_BYTES + 4 * count or _adds_up(data, at, length, count)


def _entry(data: mmap, at: int, seq: int, limit: int) -> Found | None:
    if at + HEADER_BYTES > limit:
        return None
    length, found, _, _, count, crc = _HEAD.unpack_from(data, at)
    size = HEADER_BYTES + length
    if found < seq or at + size > limit or not _adds_up(data, at, length, count):
        return None
    with memoryview(data) as view, view[at : at + _CHECKED_BYTES] as head, view[at + HEADER_BYTES : at + size] as body:
        return Found(at, found, size) if zlib.crc32(body, zlib.crc32(head)) == crc else None


def _adds_up(data: mmap, at: int, length: int, count: int) -> bool:
    """Whether the lengths of the parts agree with that of the body; cheap, and enough to tell most garbage."""
    table = 4 * count
    return table <= length and table + sum(struct.unpack_from(f"!{count}I", data, at + HEADER_BYTES)) == length


def _next_place(data: mmap, at: int, seq: int, limit: int) -> int | None:
    """Where the next entry may begin: at something like the bytes of a seq, but not in a page of zeros."""
    prefixes = {struct.pack("!Q", near)[:5] for near in (seq, seq + (1 << 24))}
    pattern = re.compile(b"(?:" + b"|".join(map(re.escape, prefixes)) + rb")(?!\x00\x00\x00)")
    place = pattern.search(data, at + _SEQ_AT, limit)
    return place.start() - _SEQ_AT if place else None
