"""One file of a record, with complete entries and an index to find them."""

from __future__ import annotations

import bisect
import logging
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.agent.paths import recreate_file
from jupyter_tpu.agent.recording.scan import SoundEntry, is_torn, sound_entries
from jupyter_tpu.wire.entries import HEADER_BYTES, entry_span

log = logging.getLogger(__name__)

# Distance between two entries in the index: one slice of output (`SLICE_BYTES`). To find an entry, at most this much is
# read.
_INDEX_EVERY_BYTES = 256 * 1024
# Size of one write. On ext4, a single write of 32 MiB takes ten times as much CPU time as 32 writes of 1 MiB
# (measured).
_WRITE_BYTES = 1024 * 1024
_NO_FILE = -1


@dataclass
class Run:
    """Contiguous intact entries: bytes `start` to `end` of the record, starting with `first_seq`."""

    start: int
    end: int
    first_seq: int


class Segment:
    """Bytes `start` to `end` of the record, in a file named after `start` and the first seq.

    An existing file is checked completely when it is first read. A segment that is no longer written to is "at rest":
    its file is open only during reads.
    """

    def __init__(self, path: Path, start: int, first_seq: int) -> None:
        self.path = path
        self.start = start
        self.first_seq = first_seq
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.end = start + os.fstat(self._fd).st_size
        self._is_checked = self.end == start
        self._last_seq = first_seq - 1
        self._runs: list[Run] = []
        self._index: list[tuple[int, int]] = []

    @classmethod
    def create(cls, folder: Path, start: int, first_seq: int) -> Segment:
        """Create the file of a new segment."""
        return cls(folder / f"{start:020d}-{first_seq:020d}.segment", start, first_seq)

    @classmethod
    def open(cls, path: Path) -> Segment:
        """Open an existing file.

        Raises:
            ValueError: the file's name is not a segment's name.
        """
        start, first_seq = path.stem.split("-")
        return cls(path, int(start), int(first_seq))

    @contextmanager
    def _file(self) -> Iterator[int]:
        """Yield the file's descriptor. If the segment is at rest, the file is open only within the context.

        Raises:
            LookupError: the file was removed; the segment then has no intact entries.
        """
        if self._fd != _NO_FILE:
            yield self._fd
            return
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            self._runs.clear()
            self._index.clear()
            raise LookupError(self.path) from None
        try:
            yield fd
        finally:
            os.close(fd)

    # -- checking

    def check(self) -> None:
        """Find the intact entries, unless they were already found."""
        if self._is_checked:
            return
        self._is_checked = True
        size = self.end - self.start
        with suppress(LookupError), self._file() as fd, mmap.mmap(fd, size, prot=mmap.PROT_READ) as data:
            for entry in sound_entries(data, self.first_seq, size):
                self._add(entry)
        if bad := size - sum(run.end - run.start for run in self._runs):
            log.warning("%s: %s of %s bytes are damaged and left out", self.path, bad, size)

    def _add(self, entry: SoundEntry) -> None:
        at = self.start + entry.at
        if self._runs and self._runs[-1].end == at:
            self._runs[-1].end += entry.size
        else:
            self._runs.append(Run(at, at + entry.size, entry.seq))
            self._index.append((entry.seq, at))
        self._last_seq = entry.seq
        if at - self._index[-1][1] >= _INDEX_EVERY_BYTES:
            self._index.append((entry.seq, at))

    def recover(self) -> int:
        """Truncate the file after the last intact entry. Return the first seq that no client can have received."""
        self.check()
        sound, seq = self._runs[-1].end if self._runs else self.start, self._last_seq + 1
        if lost := self.end - sound:
            with self._file() as fd:
                with mmap.mmap(fd, self.end - self.start, prot=mmap.PROT_READ) as data:
                    was_written = not is_torn(data, sound - self.start, seq, self.end - self.start)
                os.ftruncate(fd, sound - self.start)
            self.end = sound
            # Unless a write was only interrupted, clients may have read the lost entries. There were at most as many
            # entries as fit into the lost bytes.
            seq += (lost // HEADER_BYTES + 1) if was_written else 0
        return seq

    # -- writing and reading

    def write(self, data: bytes, first_seq: int) -> None:
        """Append whole entries that start at `first_seq`: all of them or, on an error, none.

        Don't call this for a segment at rest; see `Segment`.

        Raises:
            OSError: the entries couldn't be written to disk.
        """
        view = memoryview(data)
        position = self.end - self.start
        try:
            for at in range(0, len(view), _WRITE_BYTES):
                _pwrite(self._fd, view[at : at + _WRITE_BYTES], position + at)
        except OSError:
            os.ftruncate(self._fd, position)
            raise
        if not self._runs:
            self._runs.append(Run(self.end, self.end, first_seq))
        if not self._index or self.end - self._index[-1][1] >= _INDEX_EVERY_BYTES:
            self._index.append((first_seq, self.end))
        self.end += len(view)
        self._runs[-1].end = self.end

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`, within one run of intact entries.

        Raises:
            LookupError: there is no intact entry at `offset`.
        """
        self.check()
        at = bisect.bisect_right(self._runs, offset, key=lambda run: run.start) - 1
        if at < 0 or offset >= self._runs[at].end:
            raise LookupError(offset)
        with self._file() as fd:
            return os.pread(fd, min(size, self._runs[at].end - offset), offset - self.start)

    def locate(self, seq: int) -> tuple[int, int] | None:
        """Return ``(offset, seq)`` of the first entry at or after `seq`, or None if there is none."""
        self.check()
        # Start at the last index entry before the seq, or at the next index entry if there is a gap in between.
        nearest = max(bisect.bisect_right(self._index, (seq, self.end)) - 1, 0)
        for _, at in self._index[nearest : nearest + 2]:
            with suppress(LookupError):
                while span := entry_span(self.read(at, HEADER_BYTES), 0):
                    if span[0] >= seq:
                        return at, span[0]
                    at += span[1]
        return None

    def resume_at(self, offset: int) -> tuple[int, int] | None:
        """Return ``(offset, seq)`` of the first run of intact entries at or after `offset`, or None."""
        self.check()
        return next(((run.start, run.first_seq) for run in self._runs if run.start >= offset), None)

    def known_seq(self, offset: int) -> int:
        """Return the seq of an entry that begins at or shortly before `offset`."""
        self.check()
        at = bisect.bisect_right([start for _, start in self._index], offset) - 1
        return self._index[max(at, 0)][0] if self._index else self.first_seq

    @property
    def is_whole(self) -> bool:
        """Whether the file still exists; True for a closed segment, which can't be restored."""
        return self._fd == _NO_FILE or self.path.exists()

    def restore(self) -> None:
        """Recreate the file if it was removed. After `close_file`, this has no effect, and the content is lost.

        Raises:
            OSError: the file couldn't be restored.
        """
        if self._fd != _NO_FILE and not self.path.exists():
            self._fd = recreate_file(self.path, self._fd)

    def close_file(self) -> None:
        """Close the descriptor; don't write to the segment afterwards."""
        if self._fd != _NO_FILE:
            os.close(self._fd)
            self._fd = _NO_FILE

    def delete(self) -> None:
        """Delete the file."""
        self.close_file()
        with suppress(FileNotFoundError):
            self.path.unlink()


def _pwrite(fd: int, view: memoryview, position: int) -> None:
    while view:
        written = os.pwrite(fd, view, position)
        view, position = view[written:], position + written
