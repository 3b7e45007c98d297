"""Exchange frames with the agent over one connection, and ping it to detect a dead connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from jupyter_tpu.errors import Text, TpuError, WorkerUnreachable
from jupyter_tpu.link.interfaces import ByteStream
from jupyter_tpu.wire.frames import FROM_AGENT, Frame, FrameDecoder, Kind, ProtocolError, encode_frame, encode_json
from jupyter_tpu.wire.hello import negotiate

_READ_BYTES = 256 * 1024  # the size of one DATA frame of the agent


class Dialogue:
    """An exchange of frames over a byte stream, for one connection.

    A dialogue sends three pings in `silence_s` seconds, and closes if it receives nothing in this time.
    """

    def __init__(self, stream: ByteStream, silence_s: float) -> None:
        self._stream = stream
        self._silence_s = silence_s
        self._decoder = FrameDecoder(FROM_AGENT)
        self._early: list[Frame] = []
        self._received_at = 0.0
        self._is_open = True

    def send_hello(self, hello: Mapping[str, Any]) -> None:
        """Send the hello, which is the first frame.

        Until the agent's hello arrives, only send frames that every version supports.
        """
        self.send(encode_json(Kind.HELLO, hello))

    async def receive_hello(self, patience_s: float) -> Mapping[str, Any]:
        """Wait for the agent's hello and return its description of itself.

        Raises:
            ProtocolError: the peer is not an agent, or supports none of our protocol versions.
            WorkerUnreachable: no response arrived within `patience_s` seconds, or the connection was lost.
            EOFError: the agent closed the channel.
            OSError: the connection was lost.
        """
        try:
            async with asyncio.timeout(patience_s):  # before Python 3.12, wait_for may suppress a cancellation
                frame = await self._first_frame()
        except TimeoutError:
            raise WorkerUnreachable(
                Text("The agent on the worker did not respond within {seconds} s.", seconds=round(patience_s)),
                hint="The worker may be overloaded or out of memory.",
            ) from None
        if frame.kind != Kind.HELLO:
            raise ProtocolError("its first frame is not a hello")
        answer = frame.json()
        negotiate(answer.get("protocols"))
        about = answer.get("agent")
        return about if isinstance(about, dict) else {}

    async def _first_frame(self) -> Frame:
        while data := await self._stream.read(_READ_BYTES):
            self._early += self._decoder.feed(data)
            if self._early:
                return self._early.pop(0)
        raise EOFError

    async def run(self, handle: Callable[[Frame], None], after_batch: Callable[[], None]) -> None:
        """Call `handle` for each frame, and `after_batch` after each read, until the connection closes.

        Raises:
            ProtocolError: the agent violated the protocol.
        """
        self._received_at = asyncio.get_running_loop().time()
        receiving = asyncio.create_task(self._receive(handle, after_batch))
        pulse = asyncio.create_task(self._pulse())
        try:
            # A stream with unsent bytes may stay open after it is closed, so also stop reading when `_pulse` ends.
            await asyncio.wait((receiving, pulse), return_when=asyncio.FIRST_COMPLETED)
            if receiving.done():
                receiving.result()
        finally:
            receiving.cancel()
            pulse.cancel()
            self.close()

    async def _receive(self, handle: Callable[[Frame], None], after_batch: Callable[[], None]) -> None:
        # The agent may have sent frames right after its hello, in the same read.
        for frame in self._early:
            handle(frame)
        after_batch()
        while data := await self._read():
            self._received_at = asyncio.get_running_loop().time()
            for frame in self._decoder.feed(data):
                if frame.kind != Kind.PONG:
                    handle(frame)
            after_batch()
            # `read` returns without suspending while bytes are buffered, which would block the event loop during a
            # flood of output.
            await asyncio.sleep(0)

    async def _read(self) -> bytes:
        """Return the next bytes, or ``b""`` if the connection is closed or lost."""
        try:
            return await self._stream.read(_READ_BYTES) if self._is_open else b""
        except (OSError, EOFError, TpuError):
            return b""

    async def _pulse(self) -> None:
        loop = asyncio.get_running_loop()
        while (left_s := self._received_at + self._silence_s - loop.time()) > 0:
            self.send(encode_frame(Kind.PING))
            await asyncio.sleep(min(left_s, self._silence_s / 3))

    def probe(self) -> None:
        """Ping immediately, and wait only a third of the usual time for a response."""
        self._received_at = asyncio.get_running_loop().time() - self._silence_s * 2 / 3
        self.send(encode_frame(Kind.PING))

    def send(self, data: bytes) -> None:
        """Send data unless the connection is closed.

        A failure is not reported, because the link resends all required data on the next connection.
        """
        if self._is_open:
            with suppress(OSError):
                self._stream.write(data)

    def close(self) -> None:
        """Close the stream. May be called repeatedly."""
        if self._is_open:
            self._is_open = False
            self._stream.close()
