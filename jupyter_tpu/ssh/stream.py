"""A channel of an SSH connection as a stream of bytes."""

from __future__ import annotations

import asyncssh

from jupyter_tpu.errors import WorkerUnreachable

_STDERR_BYTES = 64 * 1024  # enough for any traceback; bounded, because the worker isn't trusted


def connection_lost(error: Exception | None = None) -> WorkerUnreachable:
    """Return the error for a connection that broke during use."""
    return WorkerUnreachable(
        "The SSH connection to the worker was lost.",
        exists="Kernels on the worker keep running.",
        hint="jupyter_tpu reconnects automatically when the network is back.",
        raw=str(error or ""),
    )


class ByteStream:
    """A stream of bytes to and from a Unix socket or a command on the worker.

    Every method that awaits raises `WorkerUnreachable` if the connection broke. Unlike asyncssh's own `write`, `write`
    never raises on a closed channel, because callers can't know whether the channel is still open.
    """

    def __init__(
        self,
        reader: asyncssh.SSHReader[bytes],
        writer: asyncssh.SSHWriter[bytes],
        errors: asyncssh.SSHReader[bytes] | None = None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._errors = errors

    async def read(self, n: int) -> bytes:
        """Return up to `n` bytes, or ``b""`` at the end of the stream."""
        return await _read(self._reader, n)

    def write(self, data: bytes) -> None:
        """Queue `data`; data for a closed stream is dropped."""
        if not self._writer.is_closing():
            self._writer.write(data)

    async def drain(self) -> None:
        """Wait until the queue of unsent data is short enough for more data."""
        try:
            await self._writer.drain()
        except (OSError, asyncssh.Error) as error:
            raise connection_lost(error) from error

    def write_eof(self) -> None:
        """Signal the end of the input to the other side."""
        if not self._writer.is_closing():
            self._writer.write_eof()

    def close(self) -> None:
        """Close both directions; repeated calls have no effect."""
        self._writer.close()

    async def wait_closed(self) -> None:
        """Wait until either side has closed the stream."""
        await self._writer.wait_closed()

    async def exit_status(self) -> int:
        """Wait until the command exits; return its exit status, or -1 if a signal killed it."""
        channel = self._writer.channel
        assert isinstance(channel, asyncssh.SSHClientChannel)
        await channel.wait_closed()
        status = channel.get_exit_status()
        if status is None:
            raise connection_lost()
        return status

    async def read_stderr(self) -> str:
        """Wait until the command exits; return the last 64 KiB of its standard error."""
        tail = b""
        while self._errors and (piece := await _read(self._errors, _STDERR_BYTES)):
            tail = (tail + piece)[-_STDERR_BYTES:]
        return tail.decode(errors="replace")


async def _read(reader: asyncssh.SSHReader[bytes], n: int) -> bytes:
    try:
        return await reader.read(n)
    except (OSError, asyncssh.Error) as error:
        raise connection_lost(error) from error
