"""A proxy command (such as an IAP tunnel) whose standard input and output carry the SSH connection.

asyncssh can also start a proxy command, but then the command's standard error is mixed into the SSH stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket

from jupyter_tpu.errors import Text, WorkerUnreachable

_STDERR_BYTES = 4096  # the last bytes are shown with an error
# Wait this long before each signal; a proxy that has lost its input should exit at once.
_END_GRACE_S = 1


class ProxyCommand:
    """A running proxy command; `sock` is the local end of the socket pair that serves as its input and output."""

    def __init__(self, process: asyncio.subprocess.Process, sock: socket.socket) -> None:
        self.sock = sock
        self._process = process
        self._stderr = b""
        self._waiter = asyncio.create_task(process.wait())
        self._reader = asyncio.create_task(self._read_stderr())

    @classmethod
    async def start(cls, argv: tuple[str, ...]) -> ProxyCommand:
        """Start the command `argv` without a shell.

        Raises:
            WorkerUnreachable: the command can't be run.
        """
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C in the terminal must not stop it, and `close` can signal its group
            )
        except OSError as error:
            ours.close()
            raise WorkerUnreachable(
                Text("The proxy command {command} cannot be run.", command=repr(argv[0])),
                hint="Check `proxy_command` in your settings, or ProxyCommand in ~/.ssh/config.",
                raw=str(error),
            ) from error
        finally:
            theirs.close()
        ours.setblocking(False)
        return cls(process, ours)

    @property
    def stderr_tail(self) -> str:
        """The end of the command's standard error."""
        return self._stderr.decode(errors="replace").strip()

    async def close(self) -> None:
        """Stop the command and its children by closing its input or, if needed, with SIGTERM and SIGKILL; reap it."""
        self.sock.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await self._ends_soon():
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
        await self._waiter
        if not await self._ends_soon():
            self._reader.cancel()  # a process that has left the group may keep standard error open

    async def _ends_soon(self) -> bool:
        """Return whether the command, and all processes that can write to its standard error, exit soon."""
        done, _ = await asyncio.wait((self._waiter, self._reader), timeout=_END_GRACE_S)
        return len(done) == 2

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        while piece := await self._process.stderr.read(_STDERR_BYTES):
            self._stderr = (self._stderr + piece)[-_STDERR_BYTES:]
