"""The agent's side of a client's connection: receive frames, and send slices of records.

Output has no queue: each stream is a cursor in a record. The sender reads from the cursor as far as the window allows,
one slice per stream in rotation, so that a flood of output doesn't delay replies and other kernels. Control replies
that are far ahead of the cursor are sent early, as copies.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from jupyter_tpu.agent.calls import Calls
from jupyter_tpu.agent.kernels.kernel import Kernel
from jupyter_tpu.agent.kernels.kernels import Kernels
from jupyter_tpu.agent.recording.record import Record
from jupyter_tpu.agent.terminals.terminal import Terminal
from jupyter_tpu.agent.terminals.terminals import Terminals
from jupyter_tpu.errors import AgentBroken, KernelFailed, TerminalNotFound, TpuError
from jupyter_tpu.wire.byte_streams import checked_target
from jupyter_tpu.wire.flow import Window
from jupyter_tpu.wire.frames import (
    FROM_CLIENT,
    JSON_BYTES,
    SLICE_BYTES,
    Frame,
    FrameDecoder,
    Kind,
    ProtocolError,
    encode_frame,
    encode_json,
)
from jupyter_tpu.wire.hello import accepted, agent_hello, checked_client_id, checked_epoch, negotiate
from jupyter_tpu.wire.multipart import decode_request
from jupyter_tpu.worker_clock import boot_clock

log = logging.getLogger(__name__)

# Bytes to read at once: one slice of output (`SLICE_BYTES`). Requests are much smaller.
_READ_BYTES = 256 * 1024
# Maximum size of unsent replies. Above it, stop reading until the client has read some of them. Bounds memory per
# client.
_REPLY_BUFFER_BYTES = 4 * 1024 * 1024
# A client pings every 4 s and gives up after 12 s of silence. If it is silent for longer, either it is gone, even if
# its SSH server hasn't noticed, or its connection is broken in one direction, which only the agent can notice.
SILENCE_S = 14.0
# Number of ticks in `SILENCE_S`. Silence is counted in ticks, so that time in which this process was suspended does not
# count.
_TICKS = 7
# Number of ticks (one minute) for sending replies of many MiB over a slow connection, because the client's pings are
# not read during that time.
_MOST_TICKS_OF_REPLIES = 30


@dataclass
class Stream:
    """One client's position in the record of a kernel or terminal.

    Attributes:
        offset: start of the next slice.
        received: offset up to which the client has acknowledged the record.
        is_paused: whether the client has paused the stream.
        expressed: seq of the newest urgent entry that was sent early.
        requested_at: when each delayed request was made (seconds of the boot clock), by the request's number.
    """

    source: Kernel | Terminal
    offset: int
    received: int
    is_paused: bool = False
    expressed: int = 0
    requested_at: dict[int, float] = field(default_factory=dict)


class Session:
    """One client's connection, served until it is closed.

    Args:
        about: the agent's details for the HELLO frame.
        notice: returns the current content of the NOTICE frame.
        fence: called once the client is identified, to close its other connections.
        silence_s: seconds of silence after which a client's connection is closed.

    Attributes:
        client_id: the client's id; empty until its HELLO frame arrives.
        epoch: a number that increases with each of the client's connections.
        target: what the client opens a byte stream to, if it does that instead of sending a HELLO frame; see
            `wire.byte_streams`. `run` then returns and leaves the connection open.
    """

    def __init__(
        self,
        kernels: Kernels,
        terminals: Terminals,
        calls: Calls,
        about: dict[str, Any],
        notice: Callable[[], Mapping[str, Any]],
        fence: Callable[[Session], None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._kernels = kernels
        self._terminals = terminals
        self._calls = calls
        self._about = about
        self._notice = notice
        self._fence = fence
        self._reader = reader
        self._writer = writer
        self.client_id = ""
        self.epoch = 0
        self.target: tuple[str, str | int] | None = None
        self._accepts: frozenset[str] = frozenset()
        self._has_ended = False
        self._tick_s = silence_s / _TICKS
        self._silent_ticks = 0
        self._is_draining = False
        self._owes_sign = False
        self._streams: dict[int, Stream] = {}
        self._pages: int | None = None
        self._window = Window()
        self._output = asyncio.Event()
        self._answers: set[asyncio.Task[None]] = set()

    @property
    def pages(self) -> int:
        """Number of pages that show this client's kernels; 1 if it follows a kernel but doesn't report pages."""
        if self._pages is not None:
            return self._pages
        return int(bool(self._streams))

    def wake(self) -> None:
        """Send new data after a kernel's record has grown or a kernel was deleted."""
        self._output.set()

    def follows(self, kernel_id: str) -> bool:
        """Whether the client is attached to the kernel."""
        return any(getattr(stream.source, "kernel_id", "") == kernel_id for stream in self._streams.values())

    def notify(self) -> None:
        """Send a NOTICE frame if the client supports it."""
        if "notice" in self._accepts:
            self._writer.write(encode_json(Kind.NOTICE, self._notice()))

    def end(self) -> None:
        """Close the connection; ignore frames that have arrived but were not handled."""
        self._has_ended = True
        self._writer.transport.abort()

    async def run(self) -> None:
        """Serve until the client disconnects, breaks the protocol or opens a byte stream."""
        watch = asyncio.create_task(self._watch())
        sender = asyncio.create_task(self._send_output())
        sender.add_done_callback(self._sender_ended)
        try:
            await self._receive()
        except ProtocolError as error:
            log.warning("a client broke the protocol: %s", error)
        except ConnectionError:
            log.info("a client went away")
        finally:
            tasks = [watch, sender, *self._answers]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self.target is None:
                self._writer.close()

    def _sender_ended(self, task: asyncio.Task[None]) -> None:
        """Close the connection if its sender fails, so that the client reconnects instead of receiving no output."""
        if task.cancelled():
            return
        if not isinstance(task.exception(), ConnectionError):
            log.error("output could not be sent", exc_info=task.exception())
        self.end()

    async def _watch(self) -> None:
        """Close the connection of a silent client."""
        while self._silent_ticks < (_MOST_TICKS_OF_REPLIES if self._is_draining else _TICKS):
            await asyncio.sleep(self._tick_s)
            self._silent_ticks += 1
            if self._owes_sign and self.client_id:  # a ping may be delayed by a long message of the same client
                self._give_sign()
        log.info("client %s is silent", self.client_id)
        self.end()

    # -- receiving

    async def _receive(self) -> None:
        decoder = FrameDecoder(FROM_CLIENT)
        while data := await self._reader.read(_READ_BYTES):
            self._silent_ticks, self._owes_sign = 0, True
            for frame in decoder.feed(data):
                self._handle(frame)
            if self.target is not None:
                return
            # Only unsent replies can exceed this size. Output never does, so an interrupt doesn't wait behind a flood
            # of output.
            if self._writer.transport.get_write_buffer_size() > _REPLY_BUFFER_BYTES:
                await self._drain_replies()

    async def _drain_replies(self) -> None:
        """Wait until the client has read its replies. Allow extra time, because pings are not read during this wait."""
        self._is_draining = True
        await self._writer.drain()
        self._silent_ticks = 0
        self._is_draining = False

    def _handle(self, frame: Frame) -> None:
        if self._has_ended:
            return
        if not self.client_id:
            self._greet(frame)
        elif handler := _HANDLERS.get(frame.kind):
            handler(self, frame)

    def _greet(self, frame: Frame) -> None:
        """Reply to the client's HELLO and close its older connections."""
        if frame.kind == Kind.OPEN and self.target is None:
            self.target = checked_target(frame.json())
            return
        if frame.kind != Kind.HELLO:
            raise ProtocolError("the first frame is not a hello")
        hello = frame.json()
        # Send the hello even if the versions don't match, so that the client can identify the agent.
        self._writer.write(encode_json(Kind.HELLO, agent_hello(self._about)))
        negotiate(hello.get("protocols"))
        self.client_id = checked_client_id(hello.get("client_id"))
        self.epoch = checked_epoch(hello.get("epoch", 0))
        self._accepts = accepted(hello.get("accepts"))
        self._fence(self)
        if not self._has_ended:
            self.notify()

    def _call(self, frame: Frame) -> None:
        call = frame.json()
        self._note_pages(call)
        task = self._calls.perform(self.client_id, frame.number, call)
        answer = asyncio.create_task(self._answer(frame.number, task))
        self._answers.add(answer)
        answer.add_done_callback(self._answers.discard)

    def _note_pages(self, call: Mapping[str, Any]) -> None:
        """Store the number of open pages from an ``activity`` call. A connected server may have no page open."""
        params = call.get("params")
        pages = params.get("pages") if call.get("method") == "activity" and isinstance(params, dict) else None
        if isinstance(pages, int) and pages >= 0:
            self._pages = pages

    async def _answer(self, number: int, task: asyncio.Task[dict[str, Any]]) -> None:
        # The call continues if this connection is lost. The client repeats it on the next connection and gets this
        # result.
        frame = encode_json(Kind.RESULT, await asyncio.shield(task), number=number)
        if len(frame) > JSON_BYTES:
            error = AgentBroken(f"The agent's answer is too large to send: {len(frame) >> 20} MiB.")
            frame = encode_json(Kind.RESULT, {"error": error.to_json()}, number=number)
        self._writer.write(frame)

    def _attach(self, frame: Frame) -> None:
        try:
            content = frame.json()
            terminal_id = content.get("terminal_id")
            found = self._terminals.get(terminal_id) if terminal_id else self._kernels.get(content.get("kernel_id"))
            stream = self._open(frame.stream, found, max(frame.number, 1))
            stream.requested_at = _requested_at(content.get("ages"))
        except TpuError as error:
            self._refuse(frame.stream, error)

    def _open(self, number: int, source: Kernel | Terminal, seq: int) -> Stream:
        if seq > source.record.next_seq:
            raise KernelFailed(
                f"This client has received messages that are missing from the worker's record of {_name_of(source)}.",
                exists="The worker's disk lost the end of the record, or this is another kernel with the same id.",
                hint="Restart the kernel.",
            )
        self._forget_in_flight(number)
        offset, found = _locate(source.record, seq)
        stream = self._streams[number] = Stream(source, offset, offset)
        self._send_position(number, source.record, offset, found)
        self._output.set()
        return stream

    def _send_position(self, number: int, record: Record, offset: int, seq: int) -> None:
        content = {"seq": seq, "end": record.end}
        self._writer.write(encode_json(Kind.POSITION, content, number, offset))

    def _refuse(self, number: int, error: TpuError) -> None:
        self._forget_in_flight(number)
        self._streams.pop(number, None)
        self._writer.write(encode_json(Kind.REFUSED, {"error": error.to_json()}, number))

    def _acknowledge(self, frame: Frame) -> None:
        stream = self._streams.get(frame.stream)
        # An acknowledgement may be older than a new position on the same stream.
        if stream is None or not stream.received <= frame.number <= stream.offset:
            return
        self._window.received(frame.number - stream.received, time.monotonic())
        stream.received = frame.number
        self._output.set()

    def _hold(self, frame: Frame) -> None:
        if stream := self._streams.get(frame.stream):
            stream.is_paused = bool(frame.number)
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
        requested_at = stream.requested_at.pop(frame.number, None)
        stream.source.request(self.client_id, frame.number, channel, parts, requested_at=requested_at)
        self._writer.write(encode_frame(Kind.REQACK, frame.stream, frame.number))

    def _ping(self, frame: Frame) -> None:
        self._give_sign(frame.number)

    def _give_sign(self, number: int = 0) -> None:
        self._owes_sign = False
        self._writer.write(encode_frame(Kind.PONG, number=number))

    # -- sending

    async def _send_output(self) -> None:
        while True:
            await self._output.wait()
            self._output.clear()
            while self._send_next():
                await self._writer.drain()

    def _send_next(self) -> bool:
        """Send urgent entries, then one part of the next stream; return whether a part was sent."""
        for number, stream in list(self._streams.items()):
            if stream.source.is_closed:
                self._refuse(number, _removed(stream.source))
            elif "express" in self._accepts:
                self._send_urgent(number, stream)
        return any(self._send_slice(number, stream) for number, stream in list(self._streams.items()))

    def _send_urgent(self, number: int, stream: Stream) -> None:
        """Send early copies of urgent entries; the stream sends these entries again later."""
        near = stream.offset if self._is_blocked(stream) else stream.offset + SLICE_BYTES
        for seq, offset, entry in stream.source.record.urgent:
            if offset >= near and seq > stream.expressed:
                stream.expressed = seq
                self._writer.write(encode_frame(Kind.EXPRESS, number, seq, entry))

    def _is_blocked(self, stream: Stream) -> bool:
        return stream.is_paused or self._window.room < SLICE_BYTES

    def _send_slice(self, number: int, stream: Stream) -> bool:
        if stream.offset == stream.source.record.end or self._is_blocked(stream):
            return False
        try:
            data = stream.source.record.read(stream.offset, SLICE_BYTES)
        except LookupError:
            self._jump(number, stream)
            return True
        if data:
            self._send_data(number, stream, data)
            self._streams[number] = self._streams.pop(number)  # move it to the end, so that other streams come first
        return bool(data)

    def _send_data(self, number: int, stream: Stream, data: bytes) -> None:
        self._writer.write(encode_frame(Kind.DATA, number, stream.offset, data))
        stream.offset += len(data)
        # A stream with no more data doesn't measure the connection's speed, see `Window`.
        starved = stream.offset == stream.source.record.end
        self._window.sent(len(data), time.monotonic(), starved=starved)

    def _jump(self, number: int, stream: Stream) -> None:
        """Skip trimmed or damaged entries; the client sees the gap in the seqs."""
        self._forget_in_flight(number)
        stream.offset, seq = stream.source.record.resume_at(stream.offset)
        stream.received = stream.offset
        self._send_position(number, stream.source.record, stream.offset, seq)


def _name_of(source: Kernel | Terminal) -> str:
    return f"kernel {source.kernel_id}" if isinstance(source, Kernel) else f"terminal {source.terminal_id}"


def _removed(source: Kernel | Terminal) -> TpuError:
    if isinstance(source, Terminal):
        return TerminalNotFound("The terminal was shut down and its record was removed.")
    return KernelFailed("The kernel was shut down and its record was removed.")


def _locate(record: Record, seq: int) -> tuple[int, int]:
    """Return the offset and seq of an entry. If it is damaged, return the record's end: only new output is sent."""
    with suppress(ProtocolError):
        offset, found = record.locate(seq)
        if found <= record.next_seq:
            return offset, found
    return record.locate(record.next_seq)


def _requested_at(ages: Any) -> dict[int, float]:
    """Return when requests were made, from pairs of ``[number, age in seconds]``; older clients send none."""
    now = boot_clock()
    try:
        return {int(number): now - float(age_s) for number, age_s in ages or ()}
    except (TypeError, ValueError, OverflowError):
        raise ProtocolError(f"ages are not valid: {str(ages)[:60]}") from None


_HANDLERS = {
    Kind.CALL: Session._call,
    Kind.ATTACH: Session._attach,
    Kind.ACK: Session._acknowledge,
    Kind.HOLD: Session._hold,
    Kind.DETACH: Session._detach,
    Kind.REQUEST: Session._request,
    Kind.PING: Session._ping,
}
