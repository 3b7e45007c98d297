"""The watermark: how far a kernel's messages are on disk, in a few bytes that can be written even to a full disk."""

from __future__ import annotations

import errno
import mmap
import os
import struct
from pathlib import Path

_STATE = struct.Struct("!QQQ")


class Watermark:
    """A memory-mapped file that says how far the record goes.

    If the agent is killed between writing the record and this file, `next_seq` tells which entries came in between.
    Entries that are in memory only, because the disk is full, are lost with the agent; their seqs must not be used
    again, since clients may have seen them.

    Attributes:
        number: number of the kernel's last message that is on disk.
        next_seq: seq after that message in the record.
        assigned: seqs below this were used, on disk or not.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._memory = _mapped(path)
        self.number, self.next_seq, self.assigned = _STATE.unpack(self._memory[:])

    def save(self, number: int, next_seq: int) -> None:
        """Record that everything up to `number` is on disk, before `next_seq`."""
        self.number, self.next_seq = number, next_seq
        self.assign(next_seq)

    def assign(self, next_seq: int) -> None:
        """Record that seqs below `next_seq` were used, on disk or not."""
        self.assigned = next_seq
        self._memory[:] = _STATE.pack(self.number, self.next_seq, self.assigned)

    @property
    def is_whole(self) -> bool:
        """Whether the file still exists."""
        return self._path.exists()

    def restore(self) -> None:
        """Restore the file if it was removed.

        Raises:
            OSError: the file could not be restored.
        """
        if not self._path.exists():
            removed, self._memory = self._memory, _mapped(self._path)
            self._memory[:] = removed[:]
            removed.close()

    def close(self) -> None:
        """Close the mapping."""
        self._memory.close()


def _mapped(path: Path) -> mmap.mmap:
    # The blocks are allocated here; later writes to the mapping need no more space.
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        missing = os.fstat(fd).st_size < _STATE.size
        if missing and os.pwrite(fd, bytes(_STATE.size), 0) < _STATE.size:  # an almost full disk may accept only a part
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return mmap.mmap(fd, _STATE.size)
    finally:
        os.close(fd)
