"""The pseudo-terminal of a session of the embedded SSH server."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import struct
import sys
import termios
from collections.abc import Callable

import asyncssh

# A session leader must open its terminal itself. Don't use preexec_fn, which would run in a fork while gRPC has
# threads.
TAKE_TERMINAL = (
    sys.executable,
    "-I",
    "-c",
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])",
)


class Terminal(asyncio.Protocol):
    """A pseudo-terminal, whose output is sent to the channel."""

    def __init__(self, channel: asyncssh.SSHServerChannel[bytes]) -> None:
        self._channel = channel
        self._master = -1
        self._reader: asyncio.ReadTransport | None = None
        self._on_end: Callable[[], None] | None = None

    async def open(self, on_end: Callable[[], None]) -> int:
        """Create the terminal; return the file descriptor for the process. The caller must close this descriptor.

        `on_end` is called when the terminal has been closed.
        """
        self._on_end = on_end
        self._master, slave = pty.openpty()
        loop = asyncio.get_running_loop()
        # use a duplicate: the transport closes its descriptor, but `write` needs one as well
        reader = os.fdopen(os.dup(self._master), "rb", buffering=0)
        self._reader, _ = await loop.connect_read_pipe(lambda: self, reader)
        return slave

    def readers(self) -> list[asyncio.ReadTransport]:
        """Return a list with the transport that reads the terminal, or an empty list after it was closed."""
        return [self._reader] if self._reader is not None and not self._reader.is_closing() else []

    def write(self, data: bytes) -> None:
        """Write the client's input."""
        with contextlib.suppress(OSError):  # the process has exited; its exit status arrives separately
            os.write(self._master, data)

    def resize(self, width: int, height: int) -> None:
        """Set the terminal's size in characters."""
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def close(self) -> None:
        """Close the emulator's end of the terminal; the process receives SIGHUP."""
        if self._reader is not None:
            self._reader.close()
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def data_received(self, data: bytes) -> None:
        """Send output to the client."""
        if not self._channel.is_closing():
            self._channel.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that the terminal was closed. On Linux, reading then fails with EIO."""
        if self._on_end is not None:
            self._on_end()
