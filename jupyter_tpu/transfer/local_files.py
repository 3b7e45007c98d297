"""The files of this machine."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable
from typing import ParamSpec, TypeVar

from jupyter_tpu.transfer.files import FileInfo

P = ParamSpec("P")
T = TypeVar("T")

_BINARY = getattr(os, "O_BINARY", 0)  # Windows would otherwise translate line ends


class LocalFiles:
    """The files of this machine; see `transfer.files.Files`. The disk is used in threads."""

    async def info(self, path: bytes, *, follow: bool = True) -> FileInfo | None:
        """See `Files.info`."""
        try:
            return _info(await asyncio.to_thread(os.stat, path or b".", follow_symlinks=follow))
        except (FileNotFoundError, NotADirectoryError):
            return None

    async def entries(self, path: bytes) -> AsyncIterator[tuple[bytes, FileInfo]]:
        """See `Files.entries`."""
        for each in await asyncio.to_thread(_entries, path or b"."):
            yield each

    async def open_to_read(self, path: bytes) -> LocalFile:
        """See `Files.open_to_read`."""
        return await self._open(path, os.O_RDONLY)

    async def open_to_write(self, path: bytes) -> LocalFile:
        """See `Files.open_to_write`."""
        return await self._open(path, os.O_RDWR | os.O_CREAT)

    async def _open(self, path: bytes, flags: int) -> LocalFile:
        return LocalFile(await asyncio.to_thread(os.open, path, flags | _BINARY, 0o600), path)

    async def make_folder(self, path: bytes) -> None:
        """See `Files.make_folder`."""
        await asyncio.to_thread(os.mkdir, path)

    async def remove(self, path: bytes) -> None:
        """See `Files.remove`."""
        await asyncio.to_thread(os.remove, path)

    async def remove_folder(self, path: bytes) -> None:
        """See `Files.remove_folder`."""
        await asyncio.to_thread(os.rmdir, path)

    async def replace(self, old: bytes, new: bytes) -> None:
        """See `Files.replace`."""
        await asyncio.to_thread(os.replace, old, new)

    async def move(self, old: bytes, new: bytes) -> None:
        """See `Files.move`."""
        if await self.info(new, follow=False):
            raise self.error(errno.EEXIST, new)
        await self.replace(old, new)

    async def make_link(self, target: bytes, path: bytes) -> None:
        """See `Files.make_link`."""
        await asyncio.to_thread(os.symlink, target, path)

    async def read_link(self, path: bytes) -> bytes:
        """See `Files.read_link`."""
        return await asyncio.to_thread(os.readlink, path)

    async def set_info(self, path: bytes, *, mode: int, modified_at: int | None = None) -> None:
        """See `Files.set_info`."""
        await asyncio.to_thread(os.chmod, path, mode)
        if modified_at is not None:
            await asyncio.to_thread(os.utime, path, (modified_at, modified_at))

    async def real_path(self, path: bytes) -> bytes:
        """See `Files.real_path`."""
        return await asyncio.to_thread(os.path.realpath, path or b".")

    def error(self, number: int, path: bytes) -> OSError:
        """See `Files.error`."""
        return OSError(number, os.strerror(number), path)


class LocalFile:
    """An open file of this machine; see `transfer.files.OpenFile`."""

    def __init__(self, descriptor: int, path: bytes) -> None:
        self._descriptor = descriptor
        self._path = path

    async def read(self, offset: int, size: int) -> bytes:
        """See `OpenFile.read`."""
        return await self._do(self._read, offset, size)

    async def write(self, offset: int, data: bytes) -> None:
        """See `OpenFile.write`."""
        await self._do(self._write, offset, data)

    async def truncate(self, size: int) -> None:
        """See `OpenFile.truncate`."""
        await self._do(os.ftruncate, self._descriptor, size)

    async def info(self) -> FileInfo:
        """See `OpenFile.info`."""
        return _info(await asyncio.to_thread(os.fstat, self._descriptor))

    async def close(self) -> None:
        """See `OpenFile.close`."""
        await asyncio.to_thread(os.close, self._descriptor)

    async def _do(self, work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Do `work` in a thread; an error names the file."""
        try:
            return await asyncio.to_thread(work, *arguments, **options)
        except OSError as error:
            error.filename = self._path
            raise

    def _read(self, offset: int, size: int) -> bytes:
        os.lseek(self._descriptor, offset, os.SEEK_SET)
        pieces = []
        while size and (piece := os.read(self._descriptor, size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _write(self, offset: int, data: bytes) -> None:
        os.lseek(self._descriptor, offset, os.SEEK_SET)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]


def _info(found: os.stat_result) -> FileInfo:
    return FileInfo.of(found.st_mode, found.st_size, found.st_mtime)


def _entries(path: bytes) -> list[tuple[bytes, FileInfo]]:
    with os.scandir(path) as found:
        return [(entry.name, _info(entry.stat(follow_symlinks=False))) for entry in found]
