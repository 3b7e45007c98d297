"""How far the record has come on a kernel's line: a number on disk that outlives the agent, beside the record."""

from __future__ import annotations

import logging
import os
import struct
from pathlib import Path

log = logging.getLogger(__name__)

_STATE = struct.Struct("!QQ")


class Heard:
    """Everything up to `number` is in the record, before `next_seq`.

    A kill may come between the record's write and this one; `next_seq` tells which entries came in between.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        state = os.pread(self._fd, _STATE.size, 0)
        self.number, self.next_seq = _STATE.unpack(state) if len(state) == _STATE.size else (0, 0)

    def save(self, number: int, next_seq: int) -> None:
        """Note it. Where the disk refuses, a later agent has more entries to count."""
        self.number, self.next_seq = number, next_seq
        try:
            os.pwrite(self._fd, _STATE.pack(number, next_seq), 0)
        except OSError as error:
            log.error("%s: cannot be written: %s", self._path, error)

    def close(self) -> None:
        os.close(self._fd)
