"""A channel of an SSH connection as a stream of bytes."""

from __future__ import annotations

import asyncssh

from jupyter_tpu.errors import WorkerUnreachable

_STDERR_BYTES = 64 * 1024


def connection_lost(error: Exception | None = None) -> WorkerUnreachable:
    """The SSH connection broke while it was in use."""
    return WorkerUnreachable(
        "The SSH connection to the worker broke.",
        exists="What runs on the worker keeps running.",
        hint="It is connected again by itself as soon as the network allows.",
        raw=str(error or ""),
    )


class ByteStream:
    """Bytes to and from a Unix socket or a command on the worker.

    Every method that awaits raises `WorkerUnreachable` when the connection broke; `write` never raises, because
    asyncssh's own write on a closed channel would, in the middle of callers that cannot know.
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
        """Up to `n` bytes; ``b""`` at the end of the stream."""
        return await _read(self._reader, n)

    def write(self, data: bytes) -> None:
        """Queue `data`; what is written to a closed stream is dropped."""
        if not self._writer.is_closing():
            self._writer.write(data)

    async def drain(self) -> None:
        """Wait until the queue is short enough to write more."""
        try:
            await self._writer.drain()
        except (OSError, asyncssh.Error) as error:
            raise connection_lost(error) from error

    def write_eof(self) -> None:
        """Tell the other side that nothing more will be written."""
        if not self._writer.is_closing():
            self._writer.write_eof()

    def close(self) -> None:
        """Close both directions; harmless when repeated."""
        self._writer.close()

    async def wait_closed(self) -> None:
        """Wait until the stream is closed, by whichever side."""
        await self._writer.wait_closed()

    async def exit_status(self) -> int:
        """The exit status of the command, after its end; minus 1 if a signal ended it."""
        channel = self._writer.channel
        assert isinstance(channel, asyncssh.SSHClientChannel)
        await channel.wait_closed()
        status = channel.get_exit_status()
        if status is None:
            raise connection_lost()
        return status

    async def read_stderr(self) -> str:
        """The last that the command writes to its standard error (64 KiB at the most), when it has ended."""
        kept = b""
        while self._errors and (piece := await _read(self._errors, _STDERR_BYTES)):
            kept = (kept + piece)[-_STDERR_BYTES:]
        return kept.decode(errors="replace")


async def _read(reader: asyncssh.SSHReader[bytes], n: int) -> bytes:
    try:
        return await reader.read(n)
    except (OSError, asyncssh.Error) as error:
        raise connection_lost(error) from error
