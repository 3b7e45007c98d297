"""How far each page has read each kernel's record, in a small file that outlives the server.

The file has a fixed number of places of 64 bytes, one per kernel and session. Each is written whole by a single call,
so a server that is killed leaves the old place or the new one; a checksum finds what a machine that lost its power
left. When all are taken, the one that was not used for longest goes. Several servers may use one file: none waits for
another, and one that finds its place taken takes another.
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

PLACES = 1024

_MAGIC = b"jupyter_tpu cursors 1\n"
_PLACE_BYTES = 64  # divides a page of memory, so that no place lies across two
_PLACE = struct.Struct("!16sQQd")
_CRC = struct.Struct("!I")
_UNHEARD = 1 << 63  # no record is that long


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a session has read: everything up to `arrived`, and perhaps more, but nothing behind `written`.

    Attributes:
        has_heard: False when the session has asked something, and perhaps got nothing at all yet.
    """

    arrived: int
    written: int
    has_heard: bool = True


@dataclass(frozen=True, slots=True)
class _Place:
    key: bytes
    cursor: Cursor
    used_at: float

    def encode(self) -> bytes:
        arrived = self.cursor.arrived | (0 if self.cursor.has_heard else _UNHEARD)
        body = _PLACE.pack(self.key, arrived, self.cursor.written, self.used_at)
        return (body + _CRC.pack(zlib.crc32(body))).ljust(_PLACE_BYTES, b"\0")

    @classmethod
    def decode(cls, data: bytes) -> _Place | None:
        """None for a free or damaged place."""
        body, crc = data[: _PLACE.size], data[_PLACE.size : _PLACE.size + _CRC.size]
        if crc != _CRC.pack(zlib.crc32(body)):
            return None
        key, arrived, written, used_at = _PLACE.unpack(body)
        return cls(key, Cursor(arrived & ~_UNHEARD, written, has_heard=not arrived & _UNHEARD), used_at)


class Cursors:
    """The places of one file, which is made on demand; where that is not possible they live in memory, as the log says.

    Args:
        path: of the file; None keeps all in memory.
        now: gives the time in Unix seconds.
    """

    def __init__(self, path: Path | None, *, places: int = PLACES, now: Callable[[], float] = time.time) -> None:
        self._places = places
        self._now = now
        self._known: dict[bytes, int] = {}
        self._file = self._open(path) if path else io.BytesIO(self._empty())

    def find(self, kernel_id: str, session_id: str) -> Cursor | None:
        """None for a session that is not known."""
        key = _key(kernel_id, session_id)
        return next((place.cursor for _, place in self._all() if place and place.key == key), None)

    def arrived(self, kernel_id: str, session_id: str) -> int:
        """The session has got everything up to this seq."""
        cursor = self.find(kernel_id, session_id)
        return cursor.arrived if cursor and cursor.has_heard else 0

    def move(self, kernel_id: str, session_id: str, cursor: Cursor) -> None:
        """The session is so far now."""
        key = _key(kernel_id, session_id)
        place = _Place(key, cursor, self._now())
        try:
            self._write(self._number_of(key), place)
        except OSError as error:
            log.warning("How far pages have read can only be kept in memory (%s).", error)
            self._leave_file()
            self._write(self._number_of(key), place)

    def close(self) -> None:
        self._file.close()

    def _number_of(self, key: bytes) -> int:
        number = self._known.get(key)
        if number is None or (place := self._read(number)) is None or place.key != key:
            number = self._known[key] = self._choose(key)
        return number

    def _choose(self, key: bytes) -> int:
        """The session's own place, else a free one, else the one that was not used for longest."""
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
            log.warning("How far pages have read can only be kept in memory (%s).", error)
            return io.BytesIO(self._empty())
        try:
            self._begin(file, path)
        except OSError as error:
            file.close()
            log.warning("How far pages have read can only be kept in memory (%s).", error)
            return io.BytesIO(self._empty())
        return file

    def _begin(self, file: io.FileIO, path: Path) -> None:
        """Use the file as it is, or start it anew. It is never made anew under its name: others may have it open."""
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size == len(self._empty()) and file.read(_PLACE_BYTES) == self._empty()[:_PLACE_BYTES]:
            return
        if size:
            log.warning("%s is damaged and starts empty: open pages may be sent some outputs again.", path)
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
    if file.write(data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _key(kernel_id: str, session_id: str) -> bytes:
    return hashlib.blake2b(f"{kernel_id}\0{session_id}".encode(errors="surrogatepass"), digest_size=16).digest()
