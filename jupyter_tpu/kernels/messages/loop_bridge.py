"""Read a kernel's record in an event loop other than the link's, in batches and with bounded memory."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from jupyter_tpu.errors import TpuError
from jupyter_tpu.kernels.messages.event_notices import unreadable_event
from jupyter_tpu.kernels.messages.fanout import RecordFanout, Seq, Subscriber
from jupyter_tpu.kernels.messages.not_run import not_run
from jupyter_tpu.link import refuse_too_large

log = logging.getLogger(__name__)

# Pause the reader above the first limit and resume it below the second, so that it does not switch with each batch.
FULL_BYTES = 4 * 1024 * 1024
_LOW_BYTES = 1024 * 1024
# Size of the messages in one call to `deliver`. Bounds how long the call keeps a server's loop busy.
_BATCH_BYTES = 1024 * 1024
_OBJECT_BYTES = 1000  # Python's overhead per message


class KernelMessage(NamedTuple):
    """A message in a kernel's record.

    Attributes:
        seq: the message's sequence number, its position in the record, starting at 1. An event that is not in the
            record has the sequence number of the preceding message.
        channel: shell, control, stdin, iopub, request or event. An event has one part, a JSON object.
        parts: the message parts as read from the kernel's socket: routing identities, ``<IDS|MSG>``, signature, header,
            …
        is_early: whether the message was delivered out of order. If so, don't resume from its `seq`.
    """

    seq: int
    channel: str
    parts: list[bytes]
    is_early: bool = False


Deliver = Callable[[list[KernelMessage]], Awaitable[None] | None]
Send = Callable[[str, Sequence[bytes]], None]


class LoopBridge:
    """A reader of a kernel's record in another event loop, created by `TPUProvisioner.follow`.

    `deliver` is called in the loop of `follow`'s caller. It gets messages in batches, each message once and in order.
    The next batch is sent when the awaitable returned by `deliver` is done. If `deliver` raises, the batch is delivered
    again, message by message. The following events are also delivered, although they are not in the record:

    - ``cut`` {first_seq, last_seq}: the messages in this range are no longer stored
    - ``new_record`` {}: the kernel's record was removed; sequence numbers start again at 1
    - ``gone`` {message, error}: the worker does not have this kernel; after a restart, sequence numbers start at 1
    - ``lost`` {message, error_code}: the link is lost; delivery continues after a restart of the kernel
    - ``unsent`` {channel, message}: a message was not sent, because too many are waiting for a disconnected link
    - ``not_run`` {asked, header, error}: a cell was not sent to the kernel; see `not_run.answers`
    - ``node_ended`` {asked, header, error, is_first}: the node was stopped or deleted before the kernel replied to a
      cell
    - ``waits_for_node`` {}: auto-recovery is recreating the node and will start the kernel on it
    - ``unreadable`` {seq}: `deliver` raised for this single message, which is skipped
    - ``closed`` {}: the kernel was shut down; this is the last event

    Attributes:
        first_seq: the sequence number of the first message to read; None until the worker has reported where the record
            ends.
    """

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._links: asyncio.AbstractEventLoop | None = None
        self._send: Send | None = None
        self._queue: deque[KernelMessage] = deque()
        self._news = asyncio.Event()
        self._is_waking = False
        self._undelivered = 0
        self._reader: Subscriber | None = None
        self._is_closed = False
        self.first_seq: int | None = None
        self._pump = asyncio.create_task(self._deliver_all())

    def send(self, channel: Literal["shell", "control", "stdin"], parts: Sequence[bytes]) -> None:
        """Send a signed message: identity, ``<IDS|MSG>``, signature, header, parent header, metadata, content, buffers.

        Returns immediately. The reply to the message has the same identity.

        Raises:
            BadInput: the message exceeds the link's size limit.
        """
        refuse_too_large(parts)
        self._call_in_link_loop(self._pass_on, channel, parts)

    async def close(self) -> None:
        """Stop reading. `deliver` is cancelled and not called again. May be called repeatedly, also by `deliver`."""
        self._is_closed = True
        self._call_in_link_loop(self._leave)
        if self._pump is not asyncio.current_task():
            self._pump.cancel()
            await asyncio.wait([self._pump])

    async def _deliver_all(self) -> None:
        while not self._is_closed:
            await self._news.wait()
            self._news.clear()
            while not self._is_closed and (batch := self._next_batch()):
                await self._deliver_one(batch)

    async def _deliver_one(self, batch: list[KernelMessage]) -> None:
        if not await self._try_to_deliver(batch):
            for message in batch:  # one bad message must not stop the others
                if not await self._try_to_deliver([message]):
                    log.error("message %s was left out", message.seq)
                    event = json.dumps(unreadable_event(message.seq)).encode()
                    await self._try_to_deliver([KernelMessage(message.seq, "event", [event], message.is_early)])
        self._call_in_link_loop(self._delivered, sum(map(_size, batch)))

    async def _try_to_deliver(self, batch: list[KernelMessage]) -> bool:
        try:
            delivered = self._deliver(batch)
            if delivered is not None:
                await delivered
        except Exception:  # an error in the consumer must not stop its output
            log.exception("messages %s to %s could not be delivered", batch[0].seq, batch[-1].seq)
            return False
        return True

    def _next_batch(self) -> list[KernelMessage]:
        batch: list[KernelMessage] = []
        size = 0
        while self._queue and size < _BATCH_BYTES:
            batch.append(self._queue.popleft())
            size += _size(batch[-1])
        return batch

    def _call_in_link_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        if self._links:
            with suppress(RuntimeError):  # the link thread has exited, and the kernel with it
                self._links.call_soon_threadsafe(function, *arguments)

    def _wake(self) -> None:
        self._is_waking = False
        self._news.set()

    # -- methods for the link's loop

    def begin(self, fanout: RecordFanout, from_seq: Seq, send: Send) -> None:
        """Start reading at `from_seq` or at the next message. Called in the link's loop."""
        self._links, self._send = asyncio.get_running_loop(), send
        # Check after setting `_links`. `close` uses the opposite order, so one of the two always sees the other.
        if not self._is_closed:
            self._reader = fanout.read(self._take, from_seq)
            self.first_seq = self._reader.next_seq

    def _leave(self) -> None:
        reader, self._reader = self._reader, None
        if reader:
            reader.close()

    def _pass_on(self, channel: str, parts: Sequence[bytes]) -> None:
        if self._reader is None or self._send is None:
            return
        try:
            self._send(channel, parts)
        except TpuError as error:
            event = not_run(parts, error) or {"event": "unsent", "channel": channel, "message": str(error)}
            self._reader.deliver_event([json.dumps(event).encode()])

    def _take(self, seq: int, channel: str, parts: list[bytes]) -> None:
        is_early = self._reader is not None and seq >= (self._reader.next_seq or 1)
        message = KernelMessage(seq, channel, parts, is_early)
        self._queue.append(message)
        self._undelivered += _size(message)
        if self._reader and self._undelivered > FULL_BYTES:
            self._reader.pause()
        # Wake the loop only once for any number of messages, because each wake-up takes a system call.
        if not self._is_waking:
            self._is_waking = True
            try:
                self._loop.call_soon_threadsafe(self._wake)
            except RuntimeError:  # the reader's loop stopped without `close`
                self._leave()

    def _delivered(self, size: int) -> None:
        self._undelivered -= size
        if self._reader and self._undelivered <= _LOW_BYTES:
            self._reader.resume()


def _size(message: KernelMessage) -> int:
    return sum(map(len, message.parts)) + _OBJECT_BYTES
