"""The record of one kernel: every message that it emitted, stored on disk in order, up to a size limit.

Segments are append-only, and named after their first offset and seq. Clients receive slices of these bytes, so the
record is also the send queue, and the agent's memory use doesn't grow. At the limit, the oldest segment is deleted; a
client that hadn't read it sees a gap in the seqs. Flushed entries survive a crash of the agent; after a power failure,
the checksums reveal incomplete last entries, which are removed. Entries that a full disk rejects stay in memory and
remain readable.
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
from jupyter_tpu.agent.recording.jupyter_messages import is_output
from jupyter_tpu.agent.recording.overflow import Overflow
from jupyter_tpu.agent.recording.segment import Segment
from jupyter_tpu.wire.entries import HEADER_BYTES, MAX_BODY_BYTES, Entry, decode_entry, encode_entry, entry_span
from jupyter_tpu.wire.multipart import Channel

log = logging.getLogger(__name__)

CAP_BYTES = 1024 * 1024 * 1024
"""Maximum size of a kernel's record on the worker's disk, in bytes: our choice, not a measured limit."""
# Maximum size of a segment. An agent checks a whole segment when it first reads it, which takes about 60 ms for small
# messages.
_SEGMENT_BYTES = 32 * 1024 * 1024
# Maximum size of a message. This leaves room below MAX_BODY_BYTES for the table of the parts' lengths.
_MOST_ENTRY_BYTES = MAX_BODY_BYTES - 1024 * 1024
# Maximum size and number of the control replies that are kept in memory, such as the reply to an interrupt. Together
# they use at most 4 MiB.
_URGENT_BYTES = 64 * 1024
_MOST_URGENT = 64


class Record:
    """The record in a folder, which is created if missing.

    `append` only collects entries; call `flush` after each batch to write them and make them visible to readers.

    Args:
        cap_bytes: maximum number of bytes on disk.

    Attributes:
        next_seq: the seq of the next entry; no client can have seen it.
        tail_seq: the seq after the last entry; lower than `next_seq` while seqs are reserved (see `reserve`).
        urgent: the newest control replies, ``(seq, offset, entry)``, for clients that are far behind.
    """

    def __init__(self, folder: Path, *, cap_bytes: int = CAP_BYTES) -> None:
        private_folder(folder)
        self._folder = folder
        self._cap_bytes = cap_bytes
        self._segment_bytes = min(_SEGMENT_BYTES, cap_bytes // 16)
        self._segments = _found_segments(folder) or [Segment.create(folder, 0, 1)]
        self.next_seq = self.tail_seq = self._segments[-1].recover()
        self.urgent: deque[tuple[int, int, bytes]] = deque(maxlen=_MOST_URGENT)
        self._waiting: list[bytes] = []
        self._waiting_seq = self.next_seq
        self._overflow = Overflow()

    @property
    def has_overflow(self) -> bool:
        """Whether the last entries are only in memory, because they couldn't be written to disk."""
        return self._overflow.size > 0

    @property
    def start(self) -> int:
        """Offset of the oldest stored byte."""
        return self._segments[0].start

    @property
    def end(self) -> int:
        """Offset after the newest flushed byte."""
        return self._written + self._overflow.size

    @property
    def _written(self) -> int:
        return self._segments[-1].end

    @property
    def first_seq(self) -> int:
        """Seq of the oldest stored entry."""
        return self._segments[0].first_seq

    def append(
        self, channel: int, parts: Sequence[bytes], time: float, reserved_seq: int | None = None
    ) -> tuple[int, int]:
        """Add a message; return its seq and its entry's size, which is 0 if the message is too large and omitted.

        Args:
            time: Unix seconds.
            reserved_seq: the seq that was reserved for this message. If a later entry already exists, the message gets
                the next free seq instead.
        """
        is_free = reserved_seq is not None and self.tail_seq <= reserved_seq < self.next_seq
        seq = reserved_seq if reserved_seq is not None and is_free else self.next_seq
        self.tail_seq = seq + 1
        self.next_seq = max(self.next_seq, self.tail_seq)
        if sum(map(len, parts)) > _MOST_ENTRY_BYTES:
            log.error("%s: left out a message that is too large for any client", self._folder)
            return seq, 0
        entry = encode_entry(seq, time, channel, parts)
        # The reply to an interrupt would otherwise wait behind all output that a slow client has not read yet.
        if channel == Channel.CONTROL and len(entry) <= _URGENT_BYTES:
            self.urgent.append((seq, self.end + sum(map(len, self._waiting)), entry))
        self._waiting.append(entry)
        return seq, len(entry)

    def flush(self) -> None:
        """Write the collected entries; entries that the disk rejects stay in memory until the next call.

        Output that exceeds the memory limit is lost, and leaves a gap in the sequence numbers.
        """
        if not self._waiting:
            self._waiting_seq = self.tail_seq
            return
        data, self._waiting = b"".join(self._waiting), []
        first_seq, self._waiting_seq = self._waiting_seq, self.tail_seq
        try:
            # Write the waiting entries first, because they are older.
            self._overflow.release(self._write)
            self._write(data, first_seq)
        except OSError as error:
            self._keep_in_memory(data, first_seq, error)

    def release(self) -> None:
        """Write as many of the entries in memory to disk as possible."""
        with suppress(OSError):
            self._overflow.release(self._write)

    def _write(self, data: bytes, first_seq: int) -> None:
        self._room_for(len(data), first_seq).write(data, first_seq)

    def _keep_in_memory(self, data: bytes, first_seq: int, error: OSError) -> None:
        if not self.has_overflow:
            log.error("%s: cannot be written, new messages stay in memory: %s", self._folder, error)
        if self._overflow.add(data, first_seq):
            return
        log.error("%s: output in messages %s to %s is lost: %s", self._folder, first_seq, self._waiting_seq - 1, error)
        # output may be dropped, but without the other messages, a client would wait forever for its cell to finish
        for seq, entry in _entries_in(data):
            if not is_output(decode_entry(entry)):
                self._overflow.add(entry, seq, is_reserved=True)

    def skip(self, count: int) -> None:
        """Skip sequence numbers that may have been used: clients may have entries that the disk lost in a reboot."""
        self.flush()
        self.next_seq += count
        self._waiting_seq = self.tail_seq = self.next_seq

    def reserve(self, next_seq: int) -> None:
        """Reserve the seqs below `next_seq` for messages that the kernel will resend.

        Clients may already have received these messages, but they are missing from the disk. Readers wait until the
        messages are resent. A message that isn't resent leaves a gap.
        """
        self.next_seq = max(self.next_seq, next_seq)

    def _room_for(self, size: int, first_seq: int) -> Segment:
        if self._written - self._segments[-1].start >= self._segment_bytes:
            self._segments[-1].close_file()
            self._segments.append(Segment.create(self._folder, self._written, first_seq))
        # Delete whole files, but never the file that is being written.
        while len(self._segments) > 1 and self._written + size - self.start > self._cap_bytes:
            self._segments.pop(0).delete()
        return self._segments[-1]

    def locate(self, seq: int) -> tuple[int, int]:
        """Return ``(offset, seq)`` of entry `seq` or, if that entry is missing or damaged, of the next intact entry."""
        if seq >= self._waiting_seq:
            return self.end, self._waiting_seq
        firsts = [segment.first_seq for segment in self._segments]
        at = max(bisect.bisect_right(firsts, seq) - 1, 0)
        places = (segment.locate(seq) for segment in self._segments[at:])
        return next(filter(None, places), None) or self._locate_in_memory(seq)

    def _locate_in_memory(self, seq: int) -> tuple[int, int]:
        before, found = self._overflow.locate(seq) or (self._overflow.size, self._waiting_seq)
        return self._written + before, found

    def resume_at(self, offset: int) -> tuple[int, int]:
        """Return the ``(offset, seq)`` to resume at after a trimmed or damaged part at `offset`."""
        places = (segment.resume_at(offset) for segment in self._segments[self._segment_at(offset) :])
        return next(filter(None, places), None) or self._locate_in_memory(0)

    def known_seq(self, offset: int) -> int:
        """Return the seq of an entry at or shortly before `offset`, or of the oldest entry if that part was trimmed."""
        return self._segments[self._segment_at(offset)].known_seq(offset)

    def _segment_at(self, offset: int) -> int:
        starts = [segment.start for segment in self._segments]
        return max(bisect.bisect_right(starts, offset) - 1, 0)

    def entries(self, seq: int = 0) -> Iterator[tuple[Entry, int]]:
        """Yield the entries on disk starting at `seq`, each with its size in bytes."""
        offset, _ = self.locate(seq)
        while offset < self._written:
            try:
                span = entry_span(self.read(offset, HEADER_BYTES), 0)
            except LookupError:
                offset, _ = self.resume_at(offset)
                continue
            assert span is not None
            yield decode_entry(self.read(offset, span[1])), span[1]
            offset += span[1]

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`, or empty bytes at the end.

        Raises:
            LookupError: the bytes at `offset` were trimmed or are damaged; see `resume_at`.
        """
        if offset >= self._written:
            return self._overflow.read(offset - self._written, size)
        return self._segments[self._segment_at(offset)].read(offset, size)

    @property
    def is_whole(self) -> bool:
        """Whether all files that `restore` can write exist."""
        return self._folder.is_dir() and all(segment.is_whole for segment in self._segments)

    def restore(self) -> None:
        """Restore removed files whose content is known; closed segments are lost.

        Raises:
            OSError: a file couldn't be restored.
        """
        private_folder(self._folder)
        for segment in self._segments:
            segment.restore()

    def close(self) -> None:
        """Flush and close all files."""
        self.flush()
        for segment in self._segments:
            segment.close_file()


def _entries_in(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while span := entry_span(data, at):
        yield span[0], data[at : at + span[1]]
        at += span[1]


def _found_segments(folder: Path) -> list[Segment]:
    segments = []
    for path in sorted(folder.glob("*.segment")):
        try:
            segments.append(Segment.open(path))
        except (OSError, ValueError) as error:
            log.error("%s: cannot be used: %s", path, error)
    # If two files overlap, for example after damage, use the later one.
    for segment, following in pairwise(segments):
        segment.end = min(segment.end, following.start)
        segment.close_file()
    return segments
