"""An open byte stream in an asyncio program, on the laptop or on the worker; see `wire.byte_streams`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Protocol

from jupyter_tpu.errors import AgentBroken, TpuError, WorkerUnreachable
from jupyter_tpu.wire.byte_streams import FlowControl
from jupyter_tpu.wire.frames import ProtocolError

_READ_BYTES = 256 * 1024
# Unsent bytes above which `drain` waits. They are in addition to the bytes of the window.
_QUEUE_BYTES = 256 * 1024


class Channel(Protocol):
    """The connection under a stream: an SSH channel or a socket."""

    async def read(self, n: int) -> bytes:
        """Return up to `n` bytes, or ``b""`` at the end."""

    def write(self, data: bytes) -> None:
        """Queue `data` without waiting."""

    def close(self) -> None:
        """Close both directions."""


class FlowStream:
    """One end of an open byte stream.

    Bytes are received even while nobody reads them, at most a window, so that acknowledgements always arrive.

    Args:
        most: the largest window in bytes: see `MOST_WINDOW_BYTES`.
    """

    def __init__(self, channel: Channel, most: int) -> None:
        self._channel = channel
        self._flow = FlowControl(most)
        self._error: TpuError | None = None
        self._news = asyncio.Event()
        self._receiving = asyncio.create_task(self._receive())

    async def read(self, n: int) -> bytes:
        """Return up to `n` bytes, or ``b""`` once the other side has ended the stream and everything was read.

        Raises:
            WorkerUnreachable: the connection was lost before that.
            AgentBroken: the other side violated the protocol.
        """
        while (data := self._flow.take(n)) is None:
            await self._wait()
        self._flush()
        return data

    def write(self, data: bytes) -> None:
        """Queue `data`; call `drain` before the next piece. Data for a closed stream is dropped."""
        self._flow.send(data)
        self._flush()

    async def drain(self) -> None:
        """Wait until the queue of unsent data is short enough for more data. Raises the same errors as `read`."""
        while self._flow.queued > _QUEUE_BYTES:
            await self._wait()

    def write_eof(self) -> None:
        """End our direction; the other side can still send."""
        self._flow.end()
        self._flush()

    async def wait_delivered(self) -> None:
        """Wait until the other side has read everything up to the end of our direction; call `write_eof` first.

        Raises the same errors as `read`.
        """
        while not self._flow.is_delivered:
            await self._wait()

    def close(self) -> None:
        """Close both directions at once; unsent data is dropped."""
        self.fail(WorkerUnreachable("The stream to the worker is closed."))

    def fail(self, error: TpuError) -> None:
        """Close the stream; `read` raises `error` from now on, after the bytes that have arrived."""
        self._end(error)
        self._receiving.cancel()

    async def wait_closed(self) -> None:
        """Wait until either side has closed the stream, or the connection was lost."""
        await asyncio.wait([self._receiving])

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        self._news.clear()
        await self._news.wait()

    async def _receive(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while data := await self._channel.read(_READ_BYTES):
                self._flow.feed(data, loop.time())
                self._flush()
                self._news.set()
                await asyncio.sleep(0)  # `read` doesn't suspend while bytes are buffered
            self._end(_lost("the other side closed the connection"))
        except ProtocolError as error:
            self._end(AgentBroken("A stream from the worker violates the protocol.", raw=str(error)))
        except (OSError, EOFError, TpuError) as error:
            self._end(_lost(str(error)))

    def _flush(self) -> None:
        if self._error is None and (frames := self._flow.frames(asyncio.get_running_loop().time())):
            with suppress(OSError):  # `_receive` notices the loss
                self._channel.write(frames)

    def _end(self, error: TpuError) -> None:
        if self._error is None:
            self._error = error
            self._channel.close()
        self._news.set()


def _lost(reason: str) -> WorkerUnreachable:
    return WorkerUnreachable("The connection to the worker was lost.", raw=reason)
