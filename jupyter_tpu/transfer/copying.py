"""Copy a file or a folder from one machine to another.

A file is written beside its target as ``.NAME.KEY.part`` and renamed when it is complete, so nobody sees half a file.
The key stands for the source's path, size and time: after a lost connection, or when the same command is run again, the
part is found and continued. Folders are copied a few files at a time, because a small file takes several round trips.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import posixpath
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from jupyter_tpu.errors import WorkerUnreachable
from jupyter_tpu.transfer.files import PIECE_BYTES, FileInfo, Files, OpenFile, joined

T = TypeVar("T")

_AT_ONCE = 8
_LONGEST_NAME = 255  # bytes, on all file systems of Linux and macOS
# Errors that every other file would meet too.
_FINAL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


class Side(Protocol):
    """A machine that files are copied from or to.

    Attributes:
        files: its files; replaced by `recover`.
    """

    files: Files

    async def recover(self, error: WorkerUnreachable) -> None:
        """Reconnect after `error`; raise it, or a later one, if this is impossible."""


class FileChanged(OSError):
    """The source changed while it was copied."""


@dataclass(slots=True)
class Progress:
    """What has been copied so far.

    Attributes:
        on_change: called after each change.
        total_bytes: size of the source; None for a folder.
        files, byte_count: the files and bytes that are complete, including those that were already there.
        skipped: files that were already there, or that can't be copied because they are sockets or devices.
        failures: the errors of single files in a folder, with `OSError.filename`.
    """

    on_change: Callable[[], None] = lambda: None
    total_bytes: int | None = None
    files: int = 0
    byte_count: int = 0
    unchanged: int = 0
    skipped: list[bytes] = field(default_factory=list)
    failures: list[OSError] = field(default_factory=list)

    def add(self, count: int) -> None:
        """Count bytes."""
        self.byte_count += count
        self.on_change()

    def finish(self, *, was_there: bool = False) -> None:
        """Count a file."""
        self.files += 1
        self.unchanged += was_there
        self.on_change()


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """The copying from one machine to another.

    Attributes:
        progress: is updated while files are copied.
    """

    source: Side
    target: Side
    progress: Progress = field(default_factory=Progress)

    async def file(self, path: bytes, to: bytes) -> None:
        """Copy one file; an existing file is replaced. Permissions and time are kept. Links are followed.

        Raises:
            OSError: the file can't be read or written; `filename` has its path.
            FileChanged: it changed twice while it was copied.
            WorkerUnreachable: the connection was lost, and `Side.recover` has given up.
        """
        is_second = False
        while True:
            try:
                await self._file(path, to)
                return
            except WorkerUnreachable as error:
                await self.source.recover(error)
                await self.target.recover(error)
            except FileChanged:
                if is_second:
                    raise
                is_second = True

    async def folder(self, path: bytes, to: bytes) -> None:
        """Copy a folder with all it contains. Files with the same size and time are skipped. Links stay links.

        The error of a single file is added to `Progress.failures`.

        Raises:
            OSError: the target's disk is full or read-only, or the folder itself can't be read or created.
            WorkerUnreachable: as for `file`.
        """
        queue: asyncio.Queue[tuple[bytes, bytes, FileInfo] | None] = asyncio.Queue(maxsize=4 * _AT_ONCE)
        created: list[tuple[bytes, int]] = []

        async def work() -> None:
            while item := await queue.get():
                await self._entry(*item)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_AT_ONCE):
                    group.create_task(work())
                async for item in self._walk(path, to, created):
                    await queue.put(item)
                for _ in range(_AT_ONCE):
                    await queue.put(None)
        except* (OSError, WorkerUnreachable) as errors:
            raise _first(errors) from None
        # last and from the bottom up, because a folder may be read-only
        for folder, mode in reversed(created):
            await self._again(partial(self._set_mode, folder, mode))

    async def _walk(
        self, path: bytes, to: bytes, created: list[tuple[bytes, int]]
    ) -> AsyncIterator[tuple[bytes, bytes, FileInfo]]:
        """Create the folders in the target, and yield what isn't a folder, with its path in the target."""
        waiting = [(path, to)]
        while waiting:
            folder, target = waiting.pop()
            try:
                info = await self._again(partial(self._source_info, folder))
                if await self._again(lambda target=target: self._made(target)):  # type: ignore[misc]
                    created.append((target, info.mode if info else 0o755))
                inside = await self._again(partial(self._listed, folder))
            except OSError as error:
                if folder == path or error.errno in _FINAL:
                    raise
                self.progress.failures.append(error)
                continue
            for name, entry in inside:
                pair = joined(folder, name), joined(target, name)
                if entry.kind == "folder":
                    waiting.append(pair)
                else:
                    yield *pair, entry

    # `Side.recover` replaces `files`, so each attempt must read it again

    async def _source_info(self, path: bytes) -> FileInfo | None:
        return await self.source.files.info(path)

    async def _listed(self, folder: bytes) -> list[tuple[bytes, FileInfo]]:
        return [each async for each in self.source.files.entries(folder)]

    async def _set_mode(self, folder: bytes, mode: int) -> None:
        await self.target.files.set_info(folder, mode=mode)

    async def _made(self, folder: bytes) -> bool:
        there = await self.target.files.info(folder)
        if there and there.kind != "folder":
            raise self.target.files.error(errno.ENOTDIR, folder)
        if not there:
            try:
                await self.target.files.make_folder(folder)
            except FileNotFoundError as error:
                raise self.target.files.error(errno.ENOENT, posixpath.dirname(folder)) from error
        return not there

    async def _entry(self, path: bytes, to: bytes, entry: FileInfo) -> None:
        try:
            if entry.kind == "link":
                await self._again(partial(self._link, path, to))
                self.progress.finish()
            elif entry.kind == "other":
                self.progress.skipped.append(path)
            elif await self._again(partial(self._is_there, entry, to)):
                self.progress.byte_count += entry.size
                self.progress.finish(was_there=True)
            else:
                await self.file(path, to)
        except OSError as error:
            if error.errno in _FINAL:
                raise
            self.progress.failures.append(error)

    async def _is_there(self, entry: FileInfo, to: bytes) -> bool:
        there = await self.target.files.info(to, follow=False)
        return there is not None and there == entry

    async def _link(self, path: bytes, to: bytes) -> None:
        text = await self.source.files.read_link(path)
        there = await self.target.files.info(to, follow=False)
        if there and there.kind == "link":
            if await self.target.files.read_link(to) == text:
                return
            await self.target.files.remove(to)
        await self.target.files.make_link(text, to)

    async def _again(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work`, again after each lost connection."""
        while True:
            try:
                return await work()
            except WorkerUnreachable as error:
                await self.source.recover(error)
                await self.target.recover(error)

    async def _file(self, path: bytes, to: bytes) -> None:
        source, target = self.source.files, self.target.files
        reading = await source.open_to_read(path)
        begun, part = self.progress.byte_count, b""
        try:
            info = await reading.info()
            if info.kind == "folder":
                raise source.error(errno.EISDIR, path)
            to = await file_behind(target, to)
            part = part_path(to, await source.real_path(path), info)
            await self._fill(part, reading, info)
            now = await reading.info()
            if (now.size, now.modified_at) != (info.size, info.modified_at):
                await target.remove(part)
                raise FileChanged(errno.EBUSY, "the file changed", source.error(errno.EBUSY, path).filename)
            await target.set_info(part, mode=info.mode, modified_at=info.modified_at)
            await target.replace(part, to)
            self.progress.finish()
        except WorkerUnreachable:
            self.progress.byte_count = begun  # the next attempt counts these bytes again
            raise
        except OSError as error:
            self.progress.byte_count = begun
            if part and error.errno in _FINAL:
                with suppress(OSError, WorkerUnreachable):
                    await target.remove(part)  # programs on that machine need the space
            if not part or error.filename != target.error(0, part).filename:
                raise
            # name the user's file, not its incomplete copy; of a folder that does not exist, the folder
            there = posixpath.dirname(to) if error.errno == errno.ENOENT else to
            raise target.error(error.errno or 0, there) from error
        finally:
            with suppress(WorkerUnreachable):
                await reading.close()

    async def _fill(self, part: bytes, reading: OpenFile, info: FileInfo) -> None:
        """Write the missing bytes of a part."""
        writing = await self.target.files.open_to_write(part)
        try:
            there = (await writing.info()).size
            # a lost connection may leave gaps in the last piece
            offset = max(0, there - PIECE_BYTES) if there <= info.size else 0
            self.progress.add(offset)
            waiting = asyncio.ensure_future(reading.read(offset, PIECE_BYTES))
            try:
                while data := await waiting:
                    waiting = asyncio.ensure_future(reading.read(offset + len(data), PIECE_BYTES))
                    await writing.write(offset, data)
                    offset += len(data)
                    self.progress.add(len(data))
            finally:
                if not waiting.done():
                    waiting.cancel()
                await asyncio.wait([waiting])
            now = (await writing.info()).size
            if now < offset:  # a server may report a short write as a success
                raise self.target.files.error(errno.ENOSPC, part)
            if now > offset:
                await writing.truncate(offset)
        finally:
            with suppress(WorkerUnreachable):
                await writing.close()


async def file_behind(files: Files, path: bytes) -> bytes:
    """Return the path of the file that must be replaced to change `path`: of a link to a file, the file's.

    Raises:
        IsADirectoryError: `path` is a folder.
        OSError: `path` is a device, pipe or socket (ENXIO).
    """
    there = await files.info(path)
    if there and there.kind == "folder":
        raise files.error(errno.EISDIR, path)
    if there and there.kind == "other":
        raise files.error(errno.ENXIO, path)
    itself = await files.info(path, follow=False)
    return await files.real_path(path) if there and itself and itself.kind == "link" else path


def part_path(to: bytes, source: bytes, info: FileInfo) -> bytes:
    """Return where an incomplete copy of a source is stored; see the module's docstring."""
    key = hashlib.sha256(b"%b\0%d\0%d" % (source, info.size, info.modified_at)).hexdigest()[:12].encode()
    folder, name = posixpath.split(to)
    end = b"." + key + b".part"
    return joined(folder, b"." + name[: _LONGEST_NAME - 1 - len(end)] + end)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
