"""Read the entries of one request from a record: all of them, or the beginning and the end.

Entries are read in slices, yielding to the event loop after each, so that a large request doesn't block other clients.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.agent.recording.jupyter_messages import header_place, json_object
from jupyter_tpu.agent.recording.record import Record
from jupyter_tpu.wire.entries import Entry, decode_entry, entry_span
from jupyter_tpu.wire.frames import SLICE_BYTES
from jupyter_tpu.wire.multipart import Channel

# Leave out larger entries: together with head and tail (`calls`), they would not fit in a RESULT frame.
_LARGEST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Span:
    """The range of one request's entries in the record: first and last sequence number, and total size in bytes."""

    first_seq: int
    last_seq: int
    bytes: int


class Excerpt:
    """A collector of the entries for which `wanted` is true.

    Attributes:
        entries: the encoded entries, as in the record.
        head_seq: sequence number of the last entry that was read from the start of the request.
    """

    def __init__(self, record: Record, wanted: Callable[[Entry], bool]) -> None:
        self._record = record
        self._wanted = wanted
        self.entries: deque[bytes] = deque()
        self.head_seq = 0

    async def read(self, span: Span, head_bytes: int, tail_bytes: int) -> None:
        """Read all entries of the span if they fit the limits; otherwise, read only its start and its end.

        The start is limited to `head_bytes`, the end to `tail_bytes`. The entry that exceeds a limit is included in
        full; entries over 4 MiB are omitted.
        """
        if span.bytes <= head_bytes + tail_bytes:
            await self._read_head(span, span.bytes)
            return
        read_seq = await self._read_head(span, head_bytes)
        # The tail may be far from the head, so start at a known entry near the tail instead of reading everything in
        # between.
        end, _ = self._record.locate(span.last_seq)
        await self._read_tail(max(self._record.known_seq(end - tail_bytes), read_seq + 1), span.last_seq, tail_bytes)

    async def _read_head(self, span: Span, most: int) -> int:
        """Collect entries up to `most` bytes, and return the seq of the last collected entry."""
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


async def request_frames(record: Record, first_seq: int) -> list[bytes] | None:
    """Return the frames of the request with this sequence number, or None if the record no longer contains it."""
    entry = await _first_entry(record, Span(first_seq, first_seq, 0), lambda _: True)
    return entry.parts if entry else None


async def published_error(record: Record, span: Span, is_part: Callable[[Entry], bool]) -> dict[str, Any] | None:
    """Return the content of the first error message in the request's entries, or None if there is none."""
    error = await _first_entry(record, span, lambda entry: is_part(entry) and _is_error(entry))
    return json_object(error.parts[header_place(error.parts) + 3]) if error else None


def _is_error(entry: Entry) -> bool:
    header = entry.parts[header_place(entry.parts)]
    return entry.channel == Channel.IOPUB and b'"error"' in header and json_object(header).get("msg_type") == "error"


async def _first_entry(record: Record, span: Span, wanted: Callable[[Entry], bool]) -> Entry | None:
    """Return the first entry within the span for which `wanted` is true, or None if there is none."""
    async for seq, data in _walk(record, span.first_seq):
        if seq > span.last_seq:
            return None
        if wanted(entry := decode_entry(data)):
            return entry
    return None


async def _walk(record: Record, seq: int) -> AsyncIterator[tuple[int, bytes]]:
    """Yield the seq and bytes of each entry, starting at `seq`; skip trimmed and damaged entries."""
    offset, _ = record.locate(seq)
    buffer = bytearray()
    while True:
        try:
            data = record.read(offset, SLICE_BYTES)
        except LookupError:
            offset, _ = record.resume_at(offset)
            buffer.clear()
            continue
        if not data:
            return
        offset += len(data)
        buffer += data
        at = 0
        # A slice may end in the middle of an entry; the entry then continues in the next slice.
        while (span := entry_span(buffer, at)) and at + span[1] <= len(buffer):
            yield span[0], bytes(buffer[at : at + span[1]])
            at += span[1]
        del buffer[:at]
        await asyncio.sleep(0)
