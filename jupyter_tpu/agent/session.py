"""One client's connection: frames in, slices of records out.

There is no queue for output: each stream is a cursor in a record, and the sender reads on from there as far as the
window allows, one slice per stream in turn, so that replies and other kernels pass between the slices of a flood.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.agent.calls import Calls
from jupyter_tpu.agent.kernel import Kernel
from jupyter_tpu.agent.kernels import Kernels
from jupyter_tpu.errors import KernelFailed, TpuError
from jupyter_tpu.wire.flow import Window
from jupyter_tpu.wire.frames import (
    FROM_CLIENT,
    SLICE_BYTES,
    Frame,
    FrameDecoder,
    Kind,
    ProtocolError,
    encode_frame,
    encode_json,
)
from jupyter_tpu.wire.hello import agent_hello, checked_client_id, negotiate
from jupyter_tpu.wire.messages import decode_request

log = logging.getLogger(__name__)

_READ_BYTES = 256 * 1024


@dataclass
class Stream:
    """A kernel as this client sees it: sent up to `offset`, of which `received` has been acknowledged."""

    kernel: Kernel
    offset: int
    received: int
    is_held: bool = False


class Session:
    """Serves one connection until it ends; `fence` is called once the client is known."""

    def __init__(
        self,
        kernels: Kernels,
        calls: Calls,
        about: dict[str, Any],
        fence: Callable[[Session], None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._kernels = kernels
        self._calls = calls
        self._about = about
        self._fence = fence
        self._reader = reader
        self._writer = writer
        self.client_id = ""
        self._streams: dict[int, Stream] = {}
        self._window = Window()
        self._output = asyncio.Event()
        self._answers: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        """A kernel's record has grown, or a kernel was forgotten."""
        self._output.set()

    def end(self) -> None:
        """Cut the connection."""
        self._writer.transport.abort()

    async def run(self) -> None:
        """Serve until the client leaves or breaks the protocol."""
        sender = asyncio.create_task(self._send_output())
        sender.add_done_callback(self._sender_ended)
        try:
            await self._receive()
        except ProtocolError as error:
            log.warning("a client broke the protocol: %s", error)
        except ConnectionError:
            log.info("a client went away")
        finally:
            tasks = [sender, *self._answers]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._writer.close()

    def _sender_ended(self, task: asyncio.Task[None]) -> None:
        """A connection on which nothing is sent any more looks alive: end it, and the client comes back."""
        if task.cancelled():
            return
        if not isinstance(task.exception(), ConnectionError):
            log.error("output could not be sent", exc_info=task.exception())
        self.end()

    # -- in --------------------------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        decoder = FrameDecoder(FROM_CLIENT)
        while data := await self._reader.read(_READ_BYTES):
            for frame in decoder.feed(data):
                self._handle(frame)
            await self._writer.drain()

    def _handle(self, frame: Frame) -> None:
        if not self.client_id:
            self._greet(frame)
        elif handler := _HANDLERS.get(frame.kind):
            handler(self, frame)

    def _greet(self, frame: Frame) -> None:
        if frame.kind != Kind.HELLO:
            raise ProtocolError("the first frame is no greeting")
        hello = frame.json()
        self._writer.write(encode_json(Kind.HELLO, agent_hello(self._about)))
        negotiate(hello.get("protocols"))
        self.client_id = checked_client_id(hello.get("client_id"))
        self._fence(self)

    def _call(self, frame: Frame) -> None:
        task = self._calls.perform(self.client_id, frame.number, frame.json())
        answer = asyncio.create_task(self._answer(frame.number, task))
        self._answers.add(answer)
        answer.add_done_callback(self._answers.discard)

    async def _answer(self, number: int, task: asyncio.Task[dict[str, Any]]) -> None:
        # The call goes on when this connection is cut; the client asks again on the next.
        content = await asyncio.shield(task)
        self._writer.write(encode_json(Kind.RESULT, content, number=number))

    def _attach(self, frame: Frame) -> None:
        try:
            kernel = self._kernels.get(frame.json().get("kernel_id"))
            self._open(frame.stream, kernel, max(frame.number, 1))
        except TpuError as error:
            self._refuse(frame.stream, error)

    def _open(self, number: int, kernel: Kernel, seq: int) -> None:
        if seq > kernel.record.next_seq:
            raise KernelFailed(
                f"The worker's record of kernel {kernel.kernel_id} ends before what was seen of it.",
                exists="Its disk lost the end, or this is another kernel of the same id.",
                hint="Restart the kernel.",
            )
        self._forget_in_flight(number)
        offset, found = kernel.record.locate(seq)
        self._streams[number] = Stream(kernel, offset, offset)
        self._writer.write(encode_json(Kind.POSITION, {"seq": found}, number, offset))
        self._output.set()

    def _refuse(self, number: int, error: TpuError) -> None:
        self._forget_in_flight(number)
        self._streams.pop(number, None)
        self._writer.write(encode_json(Kind.REFUSED, {"error": error.to_json()}, number))

    def _acknowledge(self, frame: Frame) -> None:
        stream = self._streams.get(frame.stream)
        if stream is None or not stream.received <= frame.number <= stream.offset:
            return
        self._window.received(frame.number - stream.received, time.monotonic())
        stream.received = frame.number
        self._output.set()

    def _hold(self, frame: Frame) -> None:
        if stream := self._streams.get(frame.stream):
            stream.is_held = bool(frame.number)
            self._output.set()

    def _detach(self, frame: Frame) -> None:
        self._forget_in_flight(frame.stream)
        self._streams.pop(frame.stream, None)

    def _forget_in_flight(self, number: int) -> None:
        if stream := self._streams.get(number):
            self._window.forget(stream.offset - stream.received)

    def _request(self, frame: Frame) -> None:
        stream = self._streams.get(frame.stream)
        if stream is None:
            return
        channel, parts = decode_request(frame.payload)
        stream.kernel.request(self.client_id, frame.number, channel, parts)
        self._writer.write(encode_frame(Kind.REQACK, frame.stream, frame.number))

    def _ping(self, frame: Frame) -> None:
        self._writer.write(encode_frame(Kind.PONG, number=frame.number))

    # -- out -------------------------------------------------------------------------------------------------------

    async def _send_output(self) -> None:
        while True:
            await self._output.wait()
            self._output.clear()
            while self._send_round():
                await self._writer.drain()

    def _send_round(self) -> bool:
        """One slice of each stream; whether there was any."""
        sent = [self._send_slice(number, stream) for number, stream in list(self._streams.items())]
        return any(sent)

    def _send_slice(self, number: int, stream: Stream) -> bool:
        if stream.kernel.is_closed:
            self._refuse(number, KernelFailed("The kernel was shut down and its record removed."))
            return False
        if stream.is_held or self._window.room < SLICE_BYTES:
            return False
        try:
            data = stream.kernel.record.read(stream.offset, SLICE_BYTES)
        except LookupError:
            self._jump(number, stream)
            return True
        if data:
            self._send_data(number, stream, data)
        return bool(data)

    def _send_data(self, number: int, stream: Stream, data: bytes) -> None:
        self._writer.write(encode_frame(Kind.DATA, number, stream.offset, data))
        stream.offset += len(data)
        starved = stream.offset == stream.kernel.record.end
        self._window.sent(len(data), time.monotonic(), starved=starved)

    def _jump(self, number: int, stream: Stream) -> None:
        """The record was trimmed under a slow client: go on at its oldest entry, which the client sees as a cut."""
        self._forget_in_flight(number)
        stream.offset, seq = stream.kernel.record.locate(stream.kernel.record.first_seq)
        stream.received = stream.offset
        self._writer.write(encode_json(Kind.POSITION, {"seq": seq}, number, stream.offset))


_HANDLERS = {
    Kind.CALL: Session._call,
    Kind.ATTACH: Session._attach,
    Kind.ACK: Session._acknowledge,
    Kind.HOLD: Session._hold,
    Kind.DETACH: Session._detach,
    Kind.REQUEST: Session._request,
    Kind.PING: Session._ping,
}
