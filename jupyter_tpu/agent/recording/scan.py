"""Scan a record's bytes for intact entries, with correct checksums and increasing seqs.

Disks may lose the end of a file or flip bits. The scan skips damaged parts and finds the entries after them by their
seqs.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap

from jupyter_tpu.wire.entries import HEADER_BYTES

# The header of `wire.entries`: length of the body, seq, time, channel, number of parts, CRC of the other fields.
_HEAD = struct.Struct("!IQdBHI")
_CHECKED_BYTES = HEADER_BYTES - 4
_SEQ_AT = 4


@dataclass(frozen=True, slots=True)
class SoundEntry:
    """An intact entry: its offset in the file, its seq and its size in bytes."""

    at: int
    seq: int
    size: int


def sound_entries(data: mmap, seq: int, limit: int) -> Iterator[SoundEntry]:
    """Yield the intact entries in the first `limit` bytes, except entries with a lower seq than `seq`."""
    at: int | None = 0
    while at is not None and at < limit:
        entry = _entry(data, at, seq, limit)
        if entry is None:
            at = _next_place(data, at + 1, seq, limit)
        else:
            yield entry
            at, seq = at + entry.size, entry.seq + 1


def is_torn(data: mmap, at: int, seq: int, limit: int) -> bool:
    """Whether the bytes from `at` to `limit` are the start of entry `seq`, left by an interrupted write."""
    rest = limit - at
    if rest < HEADER_BYTES:
        return rest < _SEQ_AT + 8 or struct.unpack_from("!Q", data, at + _SEQ_AT) == (seq,)
    length, found, _, _, count, _ = _HEAD.unpack_from(data, at)
    if found != seq or HEADER_BYTES + length <= rest:
        return False
    return rest < HEADER_BYTES + 4 * count or _adds_up(data, at, length, count)


def _entry(data: mmap, at: int, seq: int, limit: int) -> SoundEntry | None:
    if at + HEADER_BYTES > limit:
        return None
    length, found, _, _, count, crc = _HEAD.unpack_from(data, at)
    size = HEADER_BYTES + length
    if found < seq or at + size > limit or not _adds_up(data, at, length, count):
        return None
    with memoryview(data) as view, view[at : at + _CHECKED_BYTES] as head, view[at + HEADER_BYTES : at + size] as body:
        return SoundEntry(at, found, size) if zlib.crc32(body, zlib.crc32(head)) == crc else None


def _adds_up(data: mmap, at: int, length: int, count: int) -> bool:
    """Whether the parts' lengths add up to the body's length: a cheap check that rules out most garbage."""
    table = 4 * count
    return table <= length and table + sum(struct.unpack_from(f"!{count}I", data, at + HEADER_BYTES)) == length


def _next_place(data: mmap, at: int, seq: int, limit: int) -> int | None:
    """Return the next place where the bytes look like the start of an entry, or None; skip runs of zeros."""
    # The upper five bytes of any seq near the expected one, including a carry into these bytes.
    prefixes = {struct.pack("!Q", near)[:5] for near in (seq, seq + (1 << 24))}
    pattern = re.compile(b"(?:" + b"|".join(map(re.escape, prefixes)) + rb")(?!\x00\x00\x00)")
    place = pattern.search(data, at + _SEQ_AT, limit)
    return place.start() - _SEQ_AT if place else None
