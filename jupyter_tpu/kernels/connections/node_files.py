"""The files of nodes for a Jupyter server, over the links that its kernels use.

SFTP sessions belong to the link thread, so each request runs there. If a node has no open link, one is opened, and
released some time after the last request.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

from jupyter_tpu.kernels.connections.pool import LinkPool, WorkerLink, link_thread
from jupyter_tpu.kernels.connections.worker import WorkerKey
from jupyter_tpu.transfer.files import FileInfo, Files, OpenFile

T = TypeVar("T")

HELD_S = 120.0
"""How long a link that was opened for files stays open after the last request, in seconds."""


class NodeFilesPool:
    """The files of all nodes. Use a pool from one event loop."""

    def __init__(self) -> None:
        self._held: dict[WorkerKey, _Held] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, key: WorkerKey, work: Callable[[Files], Awaitable[T]]) -> T:
        """Run `work` with the files of a worker, in the link thread.

        Raises:
            TpuError: the worker can't be reached, or `work` raises it.
            OSError: `work` raises it.
        """
        held = self._held.get(key)
        if held is None or held.is_over:
            held = self._held[key] = _Held(link_thread.enter(), key)
            task = asyncio.create_task(self._hold(key, held))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await link_thread.run(held.run(work))

    async def _hold(self, key: WorkerKey, held: _Held) -> None:
        try:
            await link_thread.run(held.hold())
        finally:
            held.is_over = True
            if self._held.get(key) is held:
                del self._held[key]
            await asyncio.to_thread(link_thread.leave)

    async def close(self) -> None:
        """Release all links."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _Held:
    """The link to one worker. All methods run in the link thread."""

    def __init__(self, pool: LinkPool, key: WorkerKey) -> None:
        self.is_over = False
        self._pool = pool
        self._key = key
        self._shared: WorkerLink | None = None
        self._lock = asyncio.Lock()
        self._running = 0
        self._used_at = time.monotonic()

    async def run(self, work: Callable[[Files], Awaitable[T]]) -> T:
        """Run `work` with the worker's files."""
        self._running += 1
        try:
            return await work(await (await self._link()).files())
        finally:
            self._running -= 1
            self._used_at = time.monotonic()

    async def _link(self) -> WorkerLink:
        # a kernel's link may have another proxy or login name, and saves a connection
        if shared := self._pool.find_up(self._key.node, self._key.endpoint, self._key.worker_id):
            return shared
        async with self._lock:
            if self._shared is not None and self._shared.link.state == "lost":
                await self._release()
            if self._shared is None:
                self._shared = await self._pool.acquire(self._key, _ignore)
            return self._shared

    async def hold(self) -> None:
        """Keep the link until `HELD_S` seconds after the last request, or until cancelled."""
        try:
            while self._running or time.monotonic() < self._used_at + HELD_S:  # noqa: ASYNC110 - each request moves it
                await asyncio.sleep(HELD_S / 4)
        finally:
            self.is_over = True
            await self._release()

    async def _release(self) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            await self._pool.release(self._key, shared)


def _ignore(_progress: Mapping[str, Any]) -> None:
    pass


class NodeFiles:
    """The files of one worker, for the event loop of `pool`; see `transfer.files.Files`.

    Args:
        find: returns the worker; called for each request, because the node may have been stopped or replaced.
    """

    def __init__(self, pool: NodeFilesPool, find: Callable[[], Awaitable[WorkerKey]]) -> None:
        self._pool = pool
        self._find = find

    async def run(self, work: Callable[[Files], Awaitable[T]]) -> T:
        """Run `work` in the link thread; see `NodeFilesPool.run`."""
        return await self._pool.run(await self._find(), work)

    async def info(self, path: bytes, *, follow: bool = True) -> FileInfo | None:
        """See `Files.info`."""
        return await self.run(lambda files: files.info(path, follow=follow))

    async def entries(self, path: bytes) -> AsyncIterator[tuple[bytes, FileInfo]]:
        """See `Files.entries`."""

        async def listed(files: Files) -> list[tuple[bytes, FileInfo]]:
            return [each async for each in files.entries(path)]

        for each in await self.run(listed):
            yield each

    async def open_to_read(self, path: bytes) -> NodeFile:
        """See `Files.open_to_read`."""
        return NodeFile(self, await self.run(lambda files: files.open_to_read(path)))

    async def open_to_write(self, path: bytes) -> NodeFile:
        """See `Files.open_to_write`."""
        return NodeFile(self, await self.run(lambda files: files.open_to_write(path)))

    async def make_folder(self, path: bytes) -> None:
        """See `Files.make_folder`."""
        await self.run(lambda files: files.make_folder(path))

    async def remove(self, path: bytes) -> None:
        """See `Files.remove`."""
        await self.run(lambda files: files.remove(path))

    async def remove_folder(self, path: bytes) -> None:
        """See `Files.remove_folder`."""
        await self.run(lambda files: files.remove_folder(path))

    async def replace(self, old: bytes, new: bytes) -> None:
        """See `Files.replace`."""
        await self.run(lambda files: files.replace(old, new))

    async def move(self, old: bytes, new: bytes) -> None:
        """See `Files.move`."""
        await self.run(lambda files: files.move(old, new))

    async def make_link(self, target: bytes, path: bytes) -> None:
        """See `Files.make_link`."""
        await self.run(lambda files: files.make_link(target, path))

    async def read_link(self, path: bytes) -> bytes:
        """See `Files.read_link`."""
        return await self.run(lambda files: files.read_link(path))

    async def set_info(self, path: bytes, *, mode: int, modified_at: int | None = None) -> None:
        """See `Files.set_info`."""
        await self.run(lambda files: files.set_info(path, mode=mode, modified_at=modified_at))

    async def real_path(self, path: bytes) -> bytes:
        """See `Files.real_path`."""
        return await self.run(lambda files: files.real_path(path))

    def error(self, number: int, path: bytes) -> OSError:
        """See `Files.error`."""
        return OSError(number, os.strerror(number), path)


class NodeFile:
    """An open file of a worker; see `transfer.files.OpenFile`."""

    def __init__(self, files: NodeFiles, file: OpenFile) -> None:
        self._files = files
        self._file = file

    async def read(self, offset: int, size: int) -> bytes:
        """See `OpenFile.read`."""
        return await self._files.run(lambda _: self._file.read(offset, size))

    async def write(self, offset: int, data: bytes) -> None:
        """See `OpenFile.write`."""
        await self._files.run(lambda _: self._file.write(offset, data))

    async def truncate(self, size: int) -> None:
        """See `OpenFile.truncate`."""
        await self._files.run(lambda _: self._file.truncate(size))

    async def info(self) -> FileInfo:
        """See `OpenFile.info`."""
        return await self._files.run(lambda _: self._file.info())

    async def close(self) -> None:
        """See `OpenFile.close`."""
        await self._files.run(lambda _: self._file.close())
