"""The record of one kernel: every message it emitted, in order, on disk, capped.

Append-only segments named after the offset and the seq they begin with. What clients get are slices of these bytes, so
the record is also the queue and the agent's memory stays flat. When the cap is reached the oldest segment goes; whoever
had not read it sees the cut. A kill of the agent loses nothing that was flushed; after a power failure the torn tail is
cut off, which the checksums show. What a full disk does not take is held in memory, where readers find it all the same.
"""

from __future__ import annotations

import bisect
import logging
import mmap
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from jupyter_tpu.wire.entries import HEADER_BYTES, Entry, decode_entry, encode_entry, entry_span
from jupyter_tpu.wire.frames import ProtocolError
from jupyter_tpu.wire.messages import Channel

log = logging.getLogger(__name__)

CAP_BYTES = 1024 * 1024 * 1024
_SEGMENT_BYTES = 64 * 1024 * 1024
_HELD_BYTES = 32 * 1024 * 1024
_INDEX_EVERY_BYTES = 256 * 1024
# One 32 MiB write to ext4 costs ten times the CPU of the same bytes in 1 MiB writes (measured).
_WRITE_BYTES = 1024 * 1024
_URGENT_BYTES = 64 * 1024
_MOST_URGENT = 64


class Segment:
    """One file of the record: bytes `start` to `end`, first entry `first_seq`."""

    def __init__(self, path: Path, start: int, first_seq: int) -> None:
        self.path = path
        self.start = start
        self.first_seq = first_seq
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.end = start + os.fstat(self._fd).st_size
        self._index = [(first_seq, start)]

    @classmethod
    def create(cls, folder: Path, start: int, first_seq: int) -> Segment:
        return cls(folder / f"{start:020d}-{first_seq:020d}.segment", start, first_seq)

    @classmethod
    def open(cls, path: Path) -> Segment:
        start, first_seq = path.stem.split("-")
        return cls(path, int(start), int(first_seq))

    def write(self, data: bytes, first_seq: int) -> None:
        """Append whole entries, the first of which is `first_seq`; all of them or, on an error, none."""
        view = memoryview(data)
        position = self.end - self.start
        try:
            for at in range(0, len(view), _WRITE_BYTES):
                _pwrite(self._fd, view[at : at + _WRITE_BYTES], position + at)
        except OSError:
            os.ftruncate(self._fd, position)
            raise
        if self.end - self._index[-1][1] >= _INDEX_EVERY_BYTES:
            self._index.append((first_seq, self.end))
        self.end += len(view)

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._fd, min(size, self.end - offset), offset - self.start)

    def locate(self, seq: int) -> tuple[int, int]:
        """``(offset, seq)`` of the first entry not before `seq`; the end of the segment when there is none."""
        nearest = max(bisect.bisect_right(self._index, (seq, self.end)) - 1, 0)
        found, at = self._index[nearest]
        if at == self.end:
            return at, found
        with mmap.mmap(self._fd, self.end - self.start, prot=mmap.PROT_READ) as data:
            while at < self.end and (span := entry_span(data, at - self.start)):
                found, size = span
                if found >= seq:
                    break
                at += size
        return at, found

    def known_seq(self, offset: int) -> int:
        """An entry that begins at or before `offset`, not far from it."""
        at = bisect.bisect_right([start for _, start in self._index], offset) - 1
        return self._index[max(at, 0)][0]

    def entries(self) -> Iterator[tuple[Entry, int]]:
        """All entries, each with its size."""
        at = self.start
        while head := self.read(at, HEADER_BYTES):
            span = entry_span(head, 0)
            if span is None:
                return
            yield decode_entry(self.read(at, span[1])), span[1]
            at += span[1]

    def recover(self) -> int:
        """Cut off what is not a whole, sound entry; returns the seq after the last one."""
        next_seq, sound = self.first_seq, 0
        if self.end > self.start:
            with mmap.mmap(self._fd, self.end - self.start, prot=mmap.PROT_READ) as data:
                next_seq, sound = _sound_part(data, next_seq)
        if self.start + sound < self.end:
            log.warning("%s: cut off a torn tail of %s bytes", self.path, self.end - self.start - sound)
            os.ftruncate(self._fd, sound)
            self.end = self.start + sound
        return next_seq

    def close(self) -> None:
        os.close(self._fd)

    def delete(self) -> None:
        self.close()
        with suppress(FileNotFoundError):
            self.path.unlink()


def _pwrite(fd: int, view: memoryview, position: int) -> None:
    while view:
        written = os.pwrite(fd, view, position)
        view, position = view[written:], position + written


def _sound_part(data: mmap.mmap, next_seq: int) -> tuple[int, int]:
    position = 0
    with suppress(ProtocolError):
        while span := entry_span(data, position):
            entry = decode_entry(data[position : position + span[1]])
            next_seq, position = entry.seq + 1, position + span[1]
    return next_seq, position


class Held:
    """Entries that the disk did not take, in order; they follow the last segment."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[tuple[int, bytes]] = []

    def add(self, data: bytes, first_seq: int) -> bool:
        """Keep whole entries, the first of which is `first_seq`; whether there was room."""
        if self.size + len(data) > _HELD_BYTES:
            return False
        if self._pieces and len(self._pieces[-1][1]) < _INDEX_EVERY_BYTES:
            first_seq, before = self._pieces.pop()
            data, self.size = before + data, self.size - len(before)
        self._pieces.append((first_seq, data))
        self.size += len(data)
        return True

    def release(self, write: Callable[[bytes, int], None]) -> None:
        """Hand all pieces to `write`, until it fails."""
        while self._pieces:
            first_seq, data = self._pieces[0]
            write(data, first_seq)
            self.size -= len(data)
            del self._pieces[0]

    def read(self, start: int, size: int) -> bytes:
        for _, data in self._pieces:
            if start < len(data):
                return data[start : start + size]
            start -= len(data)
        return b""

    def locate(self, seq: int) -> tuple[int, int] | None:
        """``(bytes before it, its seq)`` of the first entry not before `seq`."""
        before = 0
        for _, data in self._pieces:
            at = 0
            while span := entry_span(data, at):
                if span[0] >= seq:
                    return before + at, span[0]
                at += span[1]
            before += len(data)
        return None


class Record:
    """The record in a folder, which is made when missing.

    `append` only collects; `flush` makes it visible to readers, and belongs after each batch.

    Attributes:
        urgent: the newest control replies, ``(seq, offset, entry)``, for clients that are far behind.
    """

    def __init__(self, folder: Path, *, cap_bytes: int = CAP_BYTES) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._cap_bytes = cap_bytes
        self._segment_bytes = min(_SEGMENT_BYTES, cap_bytes // 16)
        self._segments = [Segment.open(path) for path in sorted(folder.glob("*.segment"))]
        if not self._segments:
            self._segments = [Segment.create(folder, 0, 1)]
        self.next_seq = self._segments[-1].recover()
        self.urgent: deque[tuple[int, int, bytes]] = deque(maxlen=_MOST_URGENT)
        self._waiting: list[bytes] = []
        self._waiting_seq = self.next_seq
        self._held = Held()

    @property
    def is_held(self) -> bool:
        """Whether the disk did not take the last of it."""
        return self._held.size > 0

    @property
    def start(self) -> int:
        """Offset of the oldest byte that is still held."""
        return self._segments[0].start

    @property
    def end(self) -> int:
        """Offset after the newest flushed byte."""
        return self._written + self._held.size

    @property
    def _written(self) -> int:
        return self._segments[-1].end

    @property
    def first_seq(self) -> int:
        return self._segments[0].first_seq

    def append(self, channel: int, parts: Sequence[bytes], time: float) -> tuple[int, int]:
        """Take a message in; returns its seq and the size of its entry."""
        seq = self.next_seq
        entry = encode_entry(seq, time, channel, parts)
        if channel == Channel.CONTROL and len(entry) <= _URGENT_BYTES:
            self.urgent.append((seq, self.end + sum(map(len, self._waiting)), entry))
        self._waiting.append(entry)
        self.next_seq += 1
        return seq, len(entry)

    def flush(self) -> None:
        """Write what was collected. What the disk does not take is held for the next time.

        Beyond what can be held it is lost, and shows as a cut in the seqs.
        """
        if not self._waiting:
            return
        data, self._waiting = b"".join(self._waiting), []
        first_seq, self._waiting_seq = self._waiting_seq, self.next_seq
        try:
            self._held.release(self._write)
            self._write(data, first_seq)
        except OSError as error:
            self._hold(data, first_seq, error)

    def release(self) -> None:
        """Write what is held, as far as the disk takes it."""
        with suppress(OSError):
            self._held.release(self._write)

    def _write(self, data: bytes, first_seq: int) -> None:
        self._room_for(len(data), first_seq).write(data, first_seq)

    def _hold(self, data: bytes, first_seq: int, error: OSError) -> None:
        if not self.is_held:
            log.error("%s: cannot be written, what comes is held in memory: %s", self._folder, error)
        if not self._held.add(data, first_seq):
            log.error("%s: messages %s to %s are lost: %s", self._folder, first_seq, self._waiting_seq - 1, error)

    def skip(self, count: int) -> None:
        """Leave out seqs: after a reboot it is unknown which were handed out for entries that the disk lost."""
        self.flush()
        self.next_seq += count
        self._waiting_seq = self.next_seq

    def _room_for(self, size: int, first_seq: int) -> Segment:
        if self._written - self._segments[-1].start >= self._segment_bytes:
            self._segments.append(Segment.create(self._folder, self._written, first_seq))
        while len(self._segments) > 1 and self._written + size - self.start > self._cap_bytes:
            self._segments.pop(0).delete()
        return self._segments[-1]

    def locate(self, seq: int) -> tuple[int, int]:
        """``(offset, seq)`` where a reader that wants `seq` begins: there, or at the oldest entry still held."""
        if seq >= self._waiting_seq:
            return self.end, self._waiting_seq
        firsts = [segment.first_seq for segment in self._segments]
        at = max(bisect.bisect_right(firsts, seq) - 1, 0)
        offset, found = self._segments[at].locate(seq)
        if offset < self._segments[at].end:
            return offset, found
        return (offset, firsts[at + 1]) if at + 1 < len(firsts) else self._locate_held(seq)

    def known_seq(self, offset: int) -> int:
        """An entry that begins at or before `offset`, not far from it; the oldest one when that was trimmed away."""
        starts = [segment.start for segment in self._segments]
        at = max(bisect.bisect_right(starts, offset) - 1, 0)
        return self._segments[at].known_seq(offset)

    def entries(self) -> Iterator[tuple[Entry, int]]:
        """All that is recorded, each entry with its size."""
        for segment in self._segments:
            yield from segment.entries()

    def _locate_held(self, seq: int) -> tuple[int, int]:
        before, found = self._held.locate(seq) or (self._held.size, self._waiting_seq)
        return self._written + before, found

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; empty at the end.

        Raises:
            LookupError: `offset` was trimmed away.
        """
        if offset < self.start:
            raise LookupError(offset)
        if offset >= self._written:
            return self._held.read(offset - self._written, size)
        starts = [segment.start for segment in self._segments]
        at = bisect.bisect_right(starts, offset) - 1
        return self._segments[at].read(offset, size)

    def close(self) -> None:
        self.flush()
        for segment in self._segments:
            segment.close()
