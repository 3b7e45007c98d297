"""The record of one kernel: every message it emitted, in order, on disk, capped.

Append-only segments named after the offset and the seq they begin with. What clients get are slices of these bytes, so
the record is also the queue and the agent's memory stays flat. When the cap is reached the oldest segment goes; whoever
had not read it sees the cut. A kill of the agent loses nothing that was flushed; after a power failure the torn tail is
cut off, which the checksums show. What a full disk does not take is held in memory, where readers find it all the same.
"""

from __future__ import annotations

import bisect
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from jupyter_tpu.agent.paths import private_folder
from jupyter_tpu.agent.recording.overflow import Overflow
from jupyter_tpu.agent.recording.segment import Segment
from jupyter_tpu.wire.entries import HEADER_BYTES, MAX_BODY_BYTES, Entry, decode_entry, encode_entry, entry_span
from jupyter_tpu.wire.messages import Channel

log = logging.getLogger(__name__)

CAP_BYTES = 1024 * 1024 * 1024
# Each is checked in one go when an agent reads it for the first time: some 60 ms when it is full of small messages.
_SEGMENT_BYTES = 32 * 1024 * 1024
# Below MAX_BODY_BYTES by more than the lengths of its parts.
_MOST_ENTRY_BYTES = MAX_BODY_BYTES - 1024 * 1024
_URGENT_BYTES = 64 * 1024
_MOST_URGENT = 64


class Record:
    """The record in a folder, which is made when missing.

    `append` only collects; `flush` makes it visible to readers, and belongs after each batch.

    Attributes:
        urgent: the newest control replies, ``(seq, offset, entry)``, for clients that are far behind.
    """

    def __init__(self, folder: Path, *, cap_bytes: int = CAP_BYTES) -> None:
        private_folder(folder)
        self._folder = folder
        self._cap_bytes = cap_bytes
        self._segment_bytes = min(_SEGMENT_BYTES, cap_bytes // 16)
        self._segments = _found_segments(folder) or [Segment.create(folder, 0, 1)]
        self.next_seq = self._segments[-1].recover()
        self.urgent: deque[tuple[int, int, bytes]] = deque(maxlen=_MOST_URGENT)
        self._waiting: list[bytes] = []
        self._waiting_seq = self.next_seq
        self._held = Overflow()

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
        """Take a message in; returns its seq and the size of its entry: 0 when it is left out, which shows as a cut."""
        seq = self.next_seq
        self.next_seq += 1
        if sum(map(len, parts)) > _MOST_ENTRY_BYTES:
            log.error("%s: a message larger than any client takes is left out", self._folder)
            return seq, 0
        entry = encode_entry(seq, time, channel, parts)
        if channel == Channel.CONTROL and len(entry) <= _URGENT_BYTES:
            self.urgent.append((seq, self.end + sum(map(len, self._waiting)), entry))
        self._waiting.append(entry)
        return seq, len(entry)

    def flush(self) -> None:
        """Write what was collected. What the disk does not take is held for the next time.

        Beyond what can be held it is lost, and shows as a cut in the seqs.
        """
        if not self._waiting:
            self._waiting_seq = self.next_seq
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
            self._segments[-1].rest()
            self._segments.append(Segment.create(self._folder, self._written, first_seq))
        while len(self._segments) > 1 and self._written + size - self.start > self._cap_bytes:
            self._segments.pop(0).delete()
        return self._segments[-1]

    def locate(self, seq: int) -> tuple[int, int]:
        """``(offset, seq)`` where a reader that wants `seq` begins: there, or at the first sound entry behind it."""
        if seq >= self._waiting_seq:
            return self.end, self._waiting_seq
        firsts = [segment.first_seq for segment in self._segments]
        at = max(bisect.bisect_right(firsts, seq) - 1, 0)
        places = (segment.locate(seq) for segment in self._segments[at:])
        return next(filter(None, places), None) or self._locate_held(seq)

    def _locate_held(self, seq: int) -> tuple[int, int]:
        before, found = self._held.locate(seq) or (self._held.size, self._waiting_seq)
        return self._written + before, found

    def go_on(self, offset: int) -> tuple[int, int]:
        """``(offset, seq)`` where a reader goes on for whom nothing is at `offset`: trimmed away, or damaged."""
        places = (segment.go_on(offset) for segment in self._segments[self._segment_at(offset) :])
        return next(filter(None, places), None) or self._locate_held(0)

    def known_seq(self, offset: int) -> int:
        """An entry that begins at or before `offset`, not far from it; the oldest one when that was trimmed away."""
        return self._segments[self._segment_at(offset)].known_seq(offset)

    def _segment_at(self, offset: int) -> int:
        starts = [segment.start for segment in self._segments]
        return max(bisect.bisect_right(starts, offset) - 1, 0)

    def entries(self, seq: int = 0) -> Iterator[tuple[Entry, int]]:
        """What is on disk from `seq` on, each entry with its size."""
        offset, _ = self.locate(seq)
        while offset < self._written:
            try:
                span = entry_span(self.read(offset, HEADER_BYTES), 0)
            except LookupError:
                offset, _ = self.go_on(offset)
                continue
            assert span is not None
            yield decode_entry(self.read(offset, span[1])), span[1]
            offset += span[1]

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; empty at the end.

        Raises:
            LookupError: what was there was trimmed away, or is damaged; see `go_on`.
        """
        if offset >= self._written:
            return self._held.read(offset - self._written, size)
        return self._segments[self._segment_at(offset)].read(offset, size)

    def restore(self) -> None:
        """Restore what somebody has removed, as far as it is known.

        Raises:
            OSError: that is not possible.
        """
        private_folder(self._folder)
        for segment in self._segments:
            segment.restore()

    def close(self) -> None:
        self.flush()
        for segment in self._segments:
            segment.rest()


def _found_segments(folder: Path) -> list[Segment]:
    segments = []
    for path in sorted(folder.glob("*.segment")):
        try:
            segments.append(Segment.open(path))
        except (OSError, ValueError) as error:
            log.error("%s: cannot be used: %s", path, error)
    for segment, following in pairwise(segments):
        segment.end = min(segment.end, following.start)
        segment.rest()
    return segments
