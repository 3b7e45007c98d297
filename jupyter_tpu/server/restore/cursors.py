"""Cursors: the position of each page in each kernel's record, in a small file that remains when the server stops.

The file has a fixed number of 64-byte slots, one per kernel and session. Each slot is written by a single call, so a
killed server leaves either the old slot or the new one; a checksum detects a slot damaged by a power failure. If all
slots are in use, the least recently used slot is overwritten. Several servers may share the file without locks: a
server whose slot was overwritten uses another slot.
"""

from __future__ import annotations

import errno
import hashlib
import io
import logging
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)

SLOTS = 1024
"""Number of slots in the file (64 KiB): more than the pages that a user opens between two uses of the same page."""

_MAGIC = b"jupyter_tpu cursors 1\n"
_PLACE_BYTES = 64  # divides the size of a memory page, so that a slot never crosses a page boundary
_PLACE = struct.Struct("!16sQQd")
_CRC = struct.Struct("!I")
_NOTHING_RECEIVED = 1 << 63  # a flag in `arrived`, larger than any record


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position of a session in a record.

    Attributes:
        arrived: seq up to which the page has acknowledged all messages; it may have received more messages.
        written: seq of the last message sent to the page.
        has_received: whether the page has acknowledged any message; if False, the session has only sent requests.
    """

    arrived: int
    written: int
    has_received: bool = True


@dataclass(frozen=True, slots=True)
class _Place:
    key: bytes
    cursor: Cursor
    used_at: float

    def encode(self) -> bytes:
        """Return the bytes of the slot, with their checksum."""
        arrived = self.cursor.arrived | (0 if self.cursor.has_received else _NOTHING_RECEIVED)
        body = _PLACE.pack(self.key, arrived, self.cursor.written, self.used_at)
        return (body + _CRC.pack(zlib.crc32(body))).ljust(_PLACE_BYTES, b"\0")

    @classmethod
    def decode(cls, data: bytes) -> _Place | None:
        """Return the slot in `data`, or None if the slot is free or damaged."""
        body, crc = data[: _PLACE.size], data[_PLACE.size : _PLACE.size + _CRC.size]
        if crc != _CRC.pack(zlib.crc32(body)):
            return None
        key, arrived, written, used_at = _PLACE.unpack(body)
        has_heard = not arrived & _NOTHING_RECEIVED
        return cls(key, Cursor(arrived & ~_NOTHING_RECEIVED, written, has_received=has_heard), used_at)


class Cursors:
    """The cursors in one file, which is created if needed; if it can't be used, they are stored in memory.

    Args:
        path: the file, or None to store the cursors in memory.
        places: number of cursors in the file.
        now: a function that returns the time in Unix seconds.
    """

    def __init__(self, path: Path | None, *, places: int = SLOTS, now: Callable[[], float] = time.time) -> None:
        self._places = places
        self._now = now
        self._known: dict[bytes, int] = {}
        self._file = self._open(path) if path else io.BytesIO(self._empty())

    def find(self, kernel_id: str, session_id: str) -> Cursor | None:
        """Return the cursor of a session, or None for an unknown session."""
        key = _key(kernel_id, session_id)
        return next((place.cursor for _, place in self._all() if place and place.key == key), None)

    def arrived(self, kernel_id: str, session_id: str) -> int:
        """Return the seq up to which the session has received all messages, or 0 if the session is unknown."""
        cursor = self.find(kernel_id, session_id)
        return cursor.arrived if cursor and cursor.has_received else 0

    def store(self, kernel_id: str, session_id: str, cursor: Cursor) -> None:
        """Store the cursor of a session; never raises on a disk error."""
        key = _key(kernel_id, session_id)
        place = _Place(key, cursor, self._now())
        try:
            self._write(self._number_of(key), place)
        except OSError as error:
            log.warning("The positions of pages are kept in memory only (%s).", error)
            self._leave_file()
            self._write(self._number_of(key), place)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _number_of(self, key: bytes) -> int:
        number = self._known.get(key)
        if number is None or (place := self._read(number)) is None or place.key != key:
            number = self._known[key] = self._choose(key)
        return number

    def _choose(self, key: bytes) -> int:
        """Return the session's own slot. If it has none, return a free or else the least recently used slot."""
        oldest, oldest_at = 0, float("inf")
        for number, place in self._all():
            if place and place.key == key:
                return number
            used_at = place.used_at if place else float("-inf")
            if used_at < oldest_at:
                oldest, oldest_at = number, used_at
        return oldest

    def _all(self) -> Iterator[tuple[int, _Place | None]]:
        self._file.seek(_PLACE_BYTES)
        data = self._file.read(self._places * _PLACE_BYTES) or b""
        for number in range(len(data) // _PLACE_BYTES):
            yield number, _Place.decode(data[number * _PLACE_BYTES : (number + 1) * _PLACE_BYTES])

    def _read(self, number: int) -> _Place | None:
        self._file.seek((number + 1) * _PLACE_BYTES)
        return _Place.decode(self._file.read(_PLACE_BYTES) or b"")

    def _write(self, number: int, place: _Place) -> None:
        _write_whole(self._file, (number + 1) * _PLACE_BYTES, place.encode())

    def _open(self, path: Path) -> io.RawIOBase | io.BytesIO:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = io.FileIO(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600), "r+")
        except OSError as error:
            log.warning("The positions of pages are kept in memory only (%s).", error)
            return io.BytesIO(self._empty())
        try:
            self._begin(file, path)
        except OSError as error:
            file.close()
            log.warning("The positions of pages are kept in memory only (%s).", error)
            return io.BytesIO(self._empty())
        return file

    def _begin(self, file: io.FileIO, path: Path) -> None:
        """Check the existing file. If it is damaged, clear it in place, because other servers may have it open."""
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size == len(self._empty()) and file.read(_PLACE_BYTES) == self._empty()[:_PLACE_BYTES]:
            return
        if size:
            log.warning("%s was damaged and is empty now: open pages may get some outputs again.", path)
        _write_whole(file, 0, self._empty())
        file.truncate()

    def _leave_file(self) -> None:
        self._file.close()
        self._file = io.BytesIO(self._empty())
        self._known.clear()

    def _empty(self) -> bytes:
        return _MAGIC.ljust(_PLACE_BYTES, b"\0") + bytes(self._places * _PLACE_BYTES)


def _write_whole(file: io.RawIOBase | io.BytesIO, offset: int, data: bytes) -> None:
    file.seek(offset)
    if file.write(data) != len(data):  # on a full disk, an unbuffered file writes less without an error
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _key(kernel_id: str, session_id: str) -> bytes:
    return hashlib.blake2b(f"{kernel_id}\0{session_id}".encode(errors="surrogatepass"), digest_size=16).digest()
