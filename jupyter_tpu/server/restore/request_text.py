"""Stream a request's full text output from the record, as fast as the reader consumes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol

from jupyter_tpu.kernels.messages.event_notices import event_notice
from jupyter_tpu.kernels.messages.loop_bridge import KernelMessage, LoopBridge
from jupyter_tpu.outputs.items import stream_text
from jupyter_tpu.outputs.parsing import Malformed, json_object, parse
from jupyter_tpu.server.restore.request_listing import ListedRequest

_PATIENCE_S = 60  # seconds without new text; after this time, a download ends with a notice instead of hanging
# Events after which no more messages of this request can arrive.
_ENDS = ("gone", "lost", "closed", "new_record")


class Source(Protocol):
    """The part of a kernel's provisioner that this module uses."""

    async def follow(self, from_seq: int, deliver: Callable[[list[KernelMessage]], Awaitable[None]]) -> LoopBridge: ...


async def text_of(source: Source, request: ListedRequest) -> AsyncGenerator[bytes, None]:
    """Yield the text that a request has printed so far, as UTF-8, with a notice in place of missing text.

    The record is read no faster than the pieces are consumed. Close the iterator if it is not read to the end.
    """
    reader = _Reader(request)
    follower = await source.follow(request.first_seq, reader.deliver)
    try:
        while (piece := await reader.next_piece()) is not None:
            yield piece
    except TimeoutError:
        yield b"\n[The worker is not responding. The rest is on the worker: try again when the connection is back.]\n"
    finally:
        await follower.close()


class _Reader:
    """A buffer between the follower, which pushes messages, and the iterator, which pulls pieces of text."""

    def __init__(self, request: ListedRequest) -> None:
        self._request = request
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(1)  # holds one piece, so the follower has to wait
        self._is_over = False

    async def deliver(self, batch: list[KernelMessage]) -> None:
        """Process a batch of the record; the next batch follows when the text of this batch has been consumed."""
        if self._is_over:
            return
        text = await asyncio.to_thread(_text_in, batch, self._request)
        if text:
            await self._pieces.put(text)
        if any(_is_end(message, self._request) for message in batch):
            self._is_over = True
            await self._pieces.put(None)

    async def next_piece(self) -> bytes | None:
        """Return the next piece of text, or None at the end of the text.

        Raises:
            TimeoutError: no data arrived for `_PATIENCE_S` seconds.
        """
        async with asyncio.timeout(_PATIENCE_S):
            return await self._pieces.get()


def _text_in(batch: Sequence[KernelMessage], request: ListedRequest) -> bytes:
    name = request.msg_id.encode()
    return b"".join(_text_of(message, name) for message in batch if message.seq <= request.last_seq)


def _text_of(message: KernelMessage, name: bytes) -> bytes:
    with suppress(Malformed):
        if message.channel == "event":
            words = event_notice(json_object(message.parts[0]))
            return f"{words}\n".encode() if words else b""
        # most messages belong to other requests, so search for the ID's bytes before parsing JSON
        if message.channel == "iopub" and any(name in part for part in message.parts[:5]):
            return _printed(message, name.decode())
    return b""


def _printed(message: KernelMessage, msg_id: str) -> bytes:
    parsed = parse(message.seq, message.parts)
    if parsed.kind != "stream" or parsed.parent.get("msg_id") != msg_id:
        return b""
    return stream_text(parsed)[1].encode("utf-8", "replace")


def _is_end(message: KernelMessage, request: ListedRequest) -> bool:
    if message.channel != "event":
        return message.seq >= request.last_seq and not message.is_early
    with suppress(Malformed):
        return message.seq >= request.last_seq or json_object(message.parts[0]).get("event") in _ENDS
    return False
