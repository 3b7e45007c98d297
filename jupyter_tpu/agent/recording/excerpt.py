"""The entries of one request, picked out of a record: all of them, or its beginning and its end.

Reads in slices and gives way after each, so that a request of many MiB keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from jupyter_tpu.agent.recording.log import Record
from jupyter_tpu.wire.entries import Entry, decode_entry, entry_span
from jupyter_tpu.wire.frames import SLICE_BYTES

_LARGEST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Span:
    """Where in a record the entries of a request are, and how many bytes they take together."""

    first_seq: int
    last_seq: int
    bytes: int


class Excerpt:
    """Picks entries for which `wanted` is true; `entries` are whole, as they stand in the record.

    `head_seq` is the last of those from the beginning.
    """

    def __init__(self, record: Record, wanted: Callable[[Entry], bool]) -> None:
        self._record = record
        self._wanted = wanted
        self.entries: deque[bytes] = deque()
        self.head_seq = 0

    async def read(self, span: Span, head_bytes: int, tail_bytes: int) -> None:
        """Everything when it is little enough; else entries of `head_bytes` from the beginning and `tail_bytes` from
        the end, and the one more that each limit falls into. One of more than 4 MiB is left out, or no answer would
        hold it."""
        if span.bytes <= head_bytes + tail_bytes:
            await self._read_head(span, span.bytes)
            return
        read_seq = await self._read_head(span, head_bytes)
        end, _ = self._record.locate(span.last_seq)
        await self._read_tail(max(self._record.known_seq(end - tail_bytes), read_seq + 1), span.last_seq, tail_bytes)

    async def _read_head(self, span: Span, most: int) -> int:
        """Returns the seq of the last entry that was taken."""
        size = 0
        self.head_seq = span.first_seq - 1
        async for entry, data in self._entries(span.first_seq, span.last_seq):
            if size >= most or len(data) > _LARGEST_BYTES:
                break
            size += len(data)
            self.entries.append(data)
            self.head_seq = entry.seq
        return self.head_seq

    async def _read_tail(self, seq: int, last_seq: int, most: int) -> None:
        tail, size = deque[bytes](), 0
        async for _, data in self._entries(seq, last_seq):
            if len(data) <= _LARGEST_BYTES:
                tail.append(data)
                size += len(data)
            while tail and size - len(tail[0]) >= most:
                size -= len(tail.popleft())
        self.entries += tail

    async def _entries(self, seq: int, last_seq: int) -> AsyncIterator[tuple[Entry, bytes]]:
        async for found, data in _walk(self._record, seq):
            if found > last_seq:
                return
            entry = decode_entry(data)
            if self._wanted(entry):
                yield entry, data


async def first_entry(record: Record, span: Span, wanted: Callable[[Entry], bool]) -> Entry | None:
    """The first entry within the span for which `wanted` is true."""
    async for seq, data in _walk(record, span.first_seq):
        if seq > span.last_seq:
            return None
        if wanted(entry := decode_entry(data)):
            return entry
    return None


async def _walk(record: Record, seq: int) -> AsyncIterator[tuple[int, bytes]]:
    """Entries from `seq` on, undecoded; those that are trimmed meanwhile, or damaged, are left out."""
    offset, _ = record.locate(seq)
    buffer = bytearray()
    while True:
        try:
            data = record.read(offset, SLICE_BYTES)
        except LookupError:
            offset, _ = record.go_on(offset)
            buffer.clear()
            continue
        if not data:
            return
        offset += len(data)
        buffer += data
        at = 0
        while (span := entry_span(buffer, at)) and at + span[1] <= len(buffer):
            yield span[0], bytes(buffer[at : at + span[1]])
            at += span[1]
        del buffer[:at]
        await asyncio.sleep(0)
