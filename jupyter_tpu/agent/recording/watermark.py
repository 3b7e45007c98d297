"""The watermark: a small file that shows how much of a kernel's record is on disk.

The file can be written even if the disk is full.
"""

from __future__ import annotations

import bisect
import errno
import mmap
import os
import struct
from contextlib import suppress
from pathlib import Path

_STATE = struct.Struct("!QQQ")
_RUNS_HEAD = struct.Struct("!QQ")
_RUN = struct.Struct("!QQ")
_RUNS_AT = _STATE.size + _RUNS_HEAD.size
# Size of the file, enough for a thousand runs of messages. Each cell that is executed while the disk is full starts one
# or two runs.
_FILE_BYTES = 16 * 1024
_MOST_RUNS = (_FILE_BYTES - _RUNS_AT) // _RUN.size


class Watermark:
    """A memory-mapped file that stores which messages are on disk.

    If the agent is killed after it has written the record but before it has written this file, `next_seq` shows which
    entries were added. Entries that are only in memory because the disk is full are lost with the agent. Their seqs
    must not be used for other messages, because clients may have seen them. The kernel resends its own messages to the
    next agent, and `seq_of` returns the original seq of each message, so that clients recognise the message.

    Attributes:
        number: number of the kernel's last message on disk.
        next_seq: seq after the last entry on disk.
        assigned: the first seq that was never used; lower seqs were used, even if their entries are not on disk.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._memory = _mapped(path)
        self.number, self.next_seq, self.assigned = _STATE.unpack_from(self._memory)
        # Runs of messages whose numbers and seqs both rise by one: the first number and the first seq of each.
        self._numbers, self._seqs, self._last_number = _runs_in(self._memory)
        self._has_room = True

    def save(self, number: int, next_seq: int, assigned: int) -> None:
        """Save new values of `number`, `next_seq` and `assigned`; see the attributes for their meaning."""
        self.number, self.next_seq = number, next_seq
        if number >= self._last_number:
            self._forget_runs()
        self.assign(assigned)

    def restart(self, next_seq: int) -> None:
        """Record the start of a new process, whose messages are numbered from 1."""
        self._forget_runs()
        self.save(0, next_seq, next_seq)

    def assign(self, assigned: int) -> None:
        """Record that all seqs below `assigned` are in use, and store the seqs collected by `note`.

        Messages with these seqs need not be on the disk yet.
        """
        self.assigned = assigned
        if len(self._memory) == _FILE_BYTES:
            runs = b"".join(map(_RUN.pack, self._numbers, self._seqs))
            self._memory[_RUNS_AT : _RUNS_AT + len(runs)] = runs
            self._memory[_STATE.size : _RUNS_AT] = _RUNS_HEAD.pack(self._last_number, len(self._numbers))
        self._memory[: _STATE.size] = _STATE.pack(self.number, self.next_seq, self.assigned)

    def note(self, number: int, seq: int) -> None:
        """Remember the seq of the message with this number, until `assign` stores it."""
        if not self._has_room or self.seq_of(number) == seq:
            return
        while self._numbers and self._numbers[-1] >= number:  # messages with these numbers now have other seqs
            self._numbers.pop()
            self._seqs.pop()
        if not self._numbers or seq - number != self._seqs[-1] - self._numbers[-1]:
            self._has_room = len(self._numbers) < _MOST_RUNS
            if not self._has_room:
                return
            self._numbers.append(number)
            self._seqs.append(seq)
        self._last_number = number

    def seq_of(self, number: int) -> int | None:
        """Return the seq of a message that may not be on disk yet, or None if the seq is unknown."""
        at = bisect.bisect_right(self._numbers, number) - 1
        if at < 0 or number > self._last_number:
            return None
        return self._seqs[at] + number - self._numbers[at]

    def _forget_runs(self) -> None:
        self._numbers.clear()
        self._seqs.clear()
        self._last_number, self._has_room = 0, True

    @property
    def is_whole(self) -> bool:
        """Whether the file still exists."""
        return self._path.exists()

    def restore(self) -> None:
        """Restore the file if it was removed.

        Raises:
            OSError: the file couldn't be restored.
        """
        if not self._path.exists():
            removed, self._memory = self._memory, _mapped(self._path)
            removed.close()
            self.assign(self.assigned)

    def close(self) -> None:
        """Close the mapping."""
        self._memory.close()


def _mapped(path: Path) -> mmap.mmap:
    # Allocate the blocks now, so that later writes to the mapping need no more disk space.
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _extend(fd, _STATE.size):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        # Without room for runs, for example on a full disk, only the seqs of lost messages are unknown.
        return mmap.mmap(fd, _FILE_BYTES if _extend(fd, _FILE_BYTES) else _STATE.size)
    finally:
        os.close(fd)


def _extend(fd: int, wanted: int) -> bool:
    """Allocate the file's bytes up to `wanted`; an almost full disk may allow only some of them."""
    size = os.fstat(fd).st_size
    with suppress(OSError):
        while size < wanted:
            size += os.pwrite(fd, bytes(wanted - size), size)
    return size >= wanted


def _runs_in(memory: mmap.mmap) -> tuple[list[int], list[int], int]:
    if len(memory) < _FILE_BYTES:
        return [], [], 0
    last_number, count = _RUNS_HEAD.unpack_from(memory, _STATE.size)
    runs = [_RUN.unpack_from(memory, _RUNS_AT + at * _RUN.size) for at in range(min(count, _MOST_RUNS))]
    return [number for number, _ in runs], [seq for _, seq in runs], last_number
