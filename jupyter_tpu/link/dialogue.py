"""One connection to the agent, from greeting to end: frames in and out, and a pulse that notices a dead path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from jupyter_tpu.errors import TpuError, WorkerUnreachable
from jupyter_tpu.link.interfaces import ByteStream
from jupyter_tpu.wire.frames import FROM_AGENT, Frame, FrameDecoder, Kind, ProtocolError, encode_frame, encode_json
from jupyter_tpu.wire.hello import negotiate

_READ_BYTES = 256 * 1024


class Dialogue:
    """Speaks frames over a byte stream; made anew for each connection.

    It asks for a sign of life three times in `silence_s`, and ends when none came for that long.
    """

    def __init__(self, stream: ByteStream, silence_s: float) -> None:
        self._stream = stream
        self._silence_s = silence_s
        self._decoder = FrameDecoder(FROM_AGENT)
        self._early: list[Frame] = []
        self._heard_at = 0.0
        self._is_open = True

    def say_hello(self, hello: Mapping[str, Any]) -> None:
        """Comes before everything else; what may follow at once is what every agent understands."""
        self.send(encode_json(Kind.HELLO, hello))

    async def hear_hello(self) -> Mapping[str, Any]:
        """The agent's answer: what it says of itself.

        Raises:
            ProtocolError: it is no agent, or speaks no protocol of ours.
            WorkerUnreachable: it does not answer.
            EOFError: it hung up.
            OSError, WorkerUnreachable: the connection broke.
        """
        try:
            async with asyncio.timeout(self._silence_s):  # wait_for may swallow a cancellation before Python 3.12
                frame = await self._first_frame()
        except TimeoutError:
            raise WorkerUnreachable(
                f"The agent on the worker did not answer within {self._silence_s:.0f} s.",
                hint="The worker may be overloaded, or out of memory.",
            ) from None
        if frame.kind != Kind.HELLO:
            raise ProtocolError("its first frame is no greeting")
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
        """Handle frames until the connection ends.

        Raises:
            ProtocolError: the agent broke the protocol.
        """
        self._heard_at = asyncio.get_running_loop().time()
        receiving = asyncio.create_task(self._receive(handle, after_batch))
        pulse = asyncio.create_task(self._pulse())
        try:
            # A stream with unsent bytes may not end by being closed, so the pulse ends the reading as well.
            await asyncio.wait((receiving, pulse), return_when=asyncio.FIRST_COMPLETED)
            if receiving.done():
                receiving.result()
        finally:
            receiving.cancel()
            pulse.cancel()
            self.close()

    async def _receive(self, handle: Callable[[Frame], None], after_batch: Callable[[], None]) -> None:
        for frame in self._early:
            handle(frame)
        after_batch()
        while data := await self._read():
            self._heard_at = asyncio.get_running_loop().time()
            for frame in self._decoder.feed(data):
                if frame.kind != Kind.PONG:
                    handle(frame)
            after_batch()
            # A stream with bytes at hand does not give way by itself.
            await asyncio.sleep(0)

    async def _read(self) -> bytes:
        """The next bytes, or nothing once the connection has ended, in whatever way."""
        try:
            return await self._stream.read(_READ_BYTES) if self._is_open else b""
        except (OSError, EOFError, TpuError):
            return b""

    async def _pulse(self) -> None:
        loop = asyncio.get_running_loop()
        while (left_s := self._heard_at + self._silence_s - loop.time()) > 0:
            self.send(encode_frame(Kind.PING))
            await asyncio.sleep(min(left_s, self._silence_s / 3))

    def probe(self) -> None:
        """Ask for a sign of life now, and wait for it a third of the usual time."""
        self._heard_at = asyncio.get_running_loop().time() - self._silence_s * 2 / 3
        self.send(encode_frame(Kind.PING))

    def send(self, data: bytes) -> None:
        """Write, unless the connection has ended: then it is sent again on the next one, or not needed any more."""
        if self._is_open:
            with suppress(OSError):
                self._stream.write(data)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._stream.close()
