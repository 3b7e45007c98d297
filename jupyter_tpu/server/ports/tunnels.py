"""Connections from this server's event loop to ports of nodes, over the links in the link thread."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, cast

from jupyter_tpu.errors import TpuError, WrongState
from jupyter_tpu.kernels.connections.pool import LinkPool, WorkerLink, link_thread
from jupyter_tpu.kernels.connections.worker import WorkerKey
from jupyter_tpu.link import FlowStream

MOST_CONNECTIONS = 64
"""Connections to ports at the same time; each needs up to 2 MiB here."""
_READ_BYTES = 64 * 1024


class PortTunnels:
    """The connections of this server to ports, and what the user allows their pages.

    A page that the user doesn't trust can't authenticate with cookies, so its path contains a secret of the port.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._secrets: dict[tuple[str, int], str] = {}
        self._trusted: set[tuple[str, int]] = set()

    def secret(self, uid: str, port: int) -> str:
        """Return the secret of a port of the node with this uid."""
        return self._secrets.setdefault((uid, port), secrets.token_urlsafe(24))

    def is_secret(self, uid: str, port: int, secret: str) -> bool:
        """Whether this is the secret of the port."""
        expected = self._secrets.get((uid, port), "")
        return bool(expected) and secrets.compare_digest(expected.encode(), secret.encode())

    def is_trusted(self, uid: str, port: int) -> bool:
        """Whether the port's pages may use the user's rights on this server."""
        return (uid, port) in self._trusted

    def trust(self, uid: str, port: int, *, is_trusted: bool) -> None:
        """Change whether the port's pages are trusted."""
        (self._trusted.add if is_trusted else self._trusted.discard)((uid, port))

    def forget(self, uid: str, port: int) -> None:
        """Forget the secret and the trust, because the port was closed."""
        self._secrets.pop((uid, port), None)
        self._trusted.discard((uid, port))

    async def open(self, key: WorkerKey, port: int) -> socket.socket:
        """Connect to a port of a worker; the connection ends when the returned socket is closed.

        Raises:
            BadInput: the port is not open, or no program of the user listens on it.
            TpuError: the worker can't be reached, or there are too many connections.
        """
        if len(self._tasks) >= MOST_CONNECTIONS:
            raise WrongState(
                "Too many connections to ports are open.", hint="Close some of the pages that show programs on nodes."
            )
        # A pair of sockets needs neither a port nor a file, so no other process can connect.
        ours, theirs = socket.socketpair()
        opened: Future[None] = Future()
        task = asyncio.create_task(_run(link_thread.enter(), key, port, theirs, opened))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.wait((task, asyncio.wrap_future(opened)), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        except BaseException:
            task.cancel()
            ours.close()
            raise
        return ours

    async def close(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _ignore(_progress: Mapping[str, Any]) -> None:
    pass


async def _run(pool: LinkPool, key: WorkerKey, port: int, theirs: socket.socket, opened: Future[None]) -> None:
    try:
        await link_thread.run(_connect(pool, key, port, theirs, opened))
    finally:
        theirs.close()
        await asyncio.to_thread(link_thread.leave)


async def _connect(pool: LinkPool, key: WorkerKey, port: int, theirs: socket.socket, opened: Future[None]) -> None:
    """Open a stream and copy bytes until either side ends. Runs in the link thread."""
    shared = pool.find_up(key.node, key.endpoint)
    acquired = await pool.acquire(key, _ignore) if shared is None else None
    try:
        stream = await (shared or cast(WorkerLink, acquired)).link.open_stream({"port": port})
        try:
            opened.set_result(None)
            reader, writer = await asyncio.open_connection(sock=theirs)
            copies = asyncio.create_task(_to_node(reader, stream)), asyncio.create_task(_to_server(stream, writer))
            try:
                await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for copy in copies:
                    copy.cancel()
                writer.close()
                await asyncio.gather(*copies, return_exceptions=True)
            with suppress(OSError):  # the end of the data is still being written
                await writer.wait_closed()
        finally:
            stream.close()
    finally:
        if acquired is not None:
            await pool.release(key, acquired)


async def _to_node(reader: asyncio.StreamReader, stream: FlowStream) -> None:
    with suppress(OSError, TpuError):
        while data := await reader.read(_READ_BYTES):
            stream.write(data)
            await stream.drain()


async def _to_server(stream: FlowStream, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, TpuError):
        while data := await stream.read(_READ_BYTES):
            writer.write(data)
            await writer.drain()
