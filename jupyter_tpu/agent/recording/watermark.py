"""How far the record has come, in a few bytes beside it that are written even when the disk is full."""

from __future__ import annotations

import errno
import mmap
import os
import struct
from pathlib import Path

_STATE = struct.Struct("!QQQ")


class Watermark:
    """Everything up to `number` on the kernel's line is on disk, before `next_seq`; seqs below `given` were given out.

    A kill may come between the record's write and this one; `next_seq` tells which entries came in between. What was
    given out, but held in memory for want of disk, is lost with the agent; its seqs must not be given out again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._memory = _mapped(path)
        self.number, self.next_seq, self.given = _STATE.unpack(self._memory[:])

    def save(self, number: int, next_seq: int) -> None:
        """Everything is on disk."""
        self.number, self.next_seq = number, next_seq
        self.give(next_seq)

    def give(self, next_seq: int) -> None:
        """Seqs below this were given out, on disk or not."""
        self.given = next_seq
        self._memory[:] = _STATE.pack(self.number, self.next_seq, self.given)

    def restore(self) -> None:
        """Restore the file if somebody has removed it.

        Raises:
            OSError: that is not possible.
        """
        if not self._path.exists():
            removed, self._memory = self._memory, _mapped(self._path)
            self._memory[:] = removed[:]
            removed.close()

    def close(self) -> None:
        self._memory.close()


def _mapped(path: Path) -> mmap.mmap:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        missing = os.fstat(fd).st_size < _STATE.size
        if missing and os.pwrite(fd, bytes(_STATE.size), 0) < _STATE.size:  # as a disk does that is almost full
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return mmap.mmap(fd, _STATE.size)
    finally:
        os.close(fd)
