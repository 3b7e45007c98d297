"""A proxy command (such as an IAP tunnel) whose standard input and output carry the SSH connection.

asyncssh can start one itself, but mixes what the command writes to its standard error into the SSH stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket

from jupyter_tpu.errors import WorkerUnreachable

_STDERR_BYTES = 4096
_END_GRACE_S = 1


class ProxyCommand:
    """A running proxy command; `sock` is our end."""

    def __init__(self, process: asyncio.subprocess.Process, sock: socket.socket) -> None:
        self.sock = sock
        self._process = process
        self._words = b""
        self._waiter = asyncio.create_task(process.wait())
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, argv: tuple[str, ...]) -> ProxyCommand:
        """Run `argv`, never through a shell.

        Raises:
            WorkerUnreachable: it cannot be run.
        """
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise WorkerUnreachable(
                f"The proxy command {argv[0]!r} cannot be run.",
                hint="Check `proxy_command` in your settings, or ProxyCommand in ~/.ssh/config.",
                raw=str(error),
            ) from error
        finally:
            theirs.close()
        ours.setblocking(False)
        return cls(process, ours)

    @property
    def words(self) -> str:
        """The last that it wrote to its standard error."""
        return self._words.decode(errors="replace").strip()

    async def close(self) -> None:
        """End the command and what it has started, by the end of its input or else by signals, and reap it."""
        self.sock.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await self._ends_soon():
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
        await self._waiter
        if not await self._ends_soon():
            self._listener.cancel()  # a process that left the group holds the standard error

    async def _ends_soon(self) -> bool:
        """Whether the command has ended, and with it everybody who may write to its standard error."""
        done, _ = await asyncio.wait((self._waiter, self._listener), timeout=_END_GRACE_S)
        return len(done) == 2

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        while piece := await self._process.stderr.read(_STDERR_BYTES):
            self._words = (self._words + piece)[-_STDERR_BYTES:]
