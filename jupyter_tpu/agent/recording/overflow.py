"""A record's overflow buffer: readable entries in memory that couldn't be written to disk."""

from __future__ import annotations

from collections.abc import Callable

from jupyter_tpu.wire.entries import entry_span

# Maximum size of the messages in memory, the size of a segment. Bounds each kernel's memory use while the disk is full.
_MOST_MEMORY_BYTES = 32 * 1024 * 1024
# Reserve for the messages that clients wait for: replies, and the start and the end of cells. These take about 2 KiB
# per cell, so the reserve is enough for about two thousand cells.
_RESERVED_BYTES = 4 * 1024 * 1024
# Join small batches up to this size, because thousands of small batches would slow down reading.
_PIECE_BYTES = 256 * 1024


class Overflow:
    """Entries that couldn't be written to disk, in order; they follow the last segment."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[tuple[int, bytes]] = []

    def add(self, data: bytes, first_seq: int, *, is_reserved: bool = False) -> bool:
        """Store whole entries that start at `first_seq`; return whether there was enough space.

        Args:
            is_reserved: whether to use the space reserved for entries other than output.
        """
        if self.size + len(data) > _MOST_MEMORY_BYTES + (_RESERVED_BYTES if is_reserved else 0):
            return False
        if self._pieces and len(self._pieces[-1][1]) < _PIECE_BYTES:
            first_seq, before = self._pieces.pop()
            data, self.size = before + data, self.size - len(before)
        self._pieces.append((first_seq, data))
        self.size += len(data)
        return True

    def release(self, write: Callable[[bytes, int], None]) -> None:
        """Pass the buffered entries to `write` in order and drop them; stop and raise at the first failure."""
        while self._pieces:
            first_seq, data = self._pieces[0]
            write(data, first_seq)
            self.size -= len(data)
            del self._pieces[0]

    def read(self, start: int, size: int) -> bytes:
        """Return up to `size` bytes from `start`, an offset within the buffer, or empty bytes at the end."""
        for _, data in self._pieces:
            if start < len(data):
                return data[start : start + size]
            start -= len(data)
        return b""

    def locate(self, seq: int) -> tuple[int, int] | None:
        """Return the buffer offset and seq of the first entry at or after `seq`, or None if there is none."""
        before = 0
        for _, data in self._pieces:
            at = 0
            while span := entry_span(data, at):
                if span[0] >= seq:
                    return before + at, span[0]
                at += span[1]
            before += len(data)
        return None
