"""Reply to requests that the kernel finished without a reply, once it is certain that no reply will arrive.

ipykernel sends no reply if an interrupt arrives between the end of the code and the reply, if its process exits at that
point, or if IPython itself fails. A front end would show the cell as running forever. The reply and the status "idle"
arrive over different sockets, in any order, and a late reply must not be replaced. So after "idle", the agent sends a
request of its own, the probe. A kernel replies in order, so a reply that hasn't arrived before the probe's reply will
never arrive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from jupyter_tpu.agent.kernels.replies import Replies
from jupyter_tpu.agent.recording.excerpt import Span, published_error, request_frames
from jupyter_tpu.agent.recording.jupyter_messages import header_place, kind_and_id, subshell_of
from jupyter_tpu.agent.recording.record import Record
from jupyter_tpu.agent.recording.recorder import Recorder
from jupyter_tpu.agent.recording.request_index import IndexedRequest
from jupyter_tpu.wire.multipart import Channel

Send = Callable[[Channel, "list[bytes]"], None]

# How long to wait for a reply after the status "idle" before asking the kernel. A reply usually arrives within
# milliseconds.
_REPLY_WITHIN_S = 1.0
_NO_REPLY = (
    "NoReply",
    "The kernel sent no reply: an interrupt arrived just before the reply, or IPython itself failed. If this happens "
    "again, restart the kernel.",
)
_KERNEL_ENDED = ("KernelEnded", "The kernel ended before it replied.")
_OF_CELLS = " Whether all code of this cell ran is unknown."

Lost: TypeAlias = "tuple[IndexedRequest | None, list[bytes]]"
"""A request: its entry in the index (None if it is not a cell), and its frames."""


class LostReplies:
    """A kernel's requests, usually cells, that are done but have no reply.

    Args:
        make_replies: returns an object that creates replies on behalf of the kernel.
        send: passes a message to the kernel.
    """

    def __init__(self, record: Record, recorder: Recorder, make_replies: Callable[[], Replies], send: Send) -> None:
        self._record = record
        self._requests = recorder.requests
        self._make_replies = make_replies
        self._send = send
        self._probes: dict[str, asyncio.Future[None]] = {}
        self._settling: asyncio.Task[None] | None = None

    def search(self) -> None:
        """Start sending missing replies to finished requests; call this after each batch of the kernel's messages."""
        if self._has_lost and (self._settling is None or self._settling.done()):
            self._settling = asyncio.create_task(self._settle())

    def probe_answered(self, channel: int, parts: list[bytes]) -> None:
        """Record the kernel's reply to a probe."""
        _, msg_id = kind_and_id(parts[header_place(parts) + 1])
        probe = self._probes.get(msg_id)
        if channel == Channel.SHELL and probe and not probe.done():
            probe.set_result(None)

    def close(self) -> None:
        """Stop sending replies; the kernel keeps running."""
        if self._settling is not None:
            self._settling.cancel()

    async def kernel_ended(self) -> None:
        """Reply to all unanswered requests, because the process has exited and all its messages were recorded."""
        self.close()
        for request, asked in await self._lost():
            await self._answer(request, asked, *_KERNEL_ENDED)

    @property
    def _has_lost(self) -> bool:
        return bool(self._requests.unanswered or self._requests.unanswered_others)

    async def _settle(self) -> None:
        while self._has_lost:
            await asyncio.sleep(_REPLY_WITHIN_S)
            shells: dict[str, list[Lost]] = {}
            for request, asked in await self._lost():
                shells.setdefault(subshell_of(asked), []).append((request, asked))
            await asyncio.gather(*(self._settle_shell(shell, lost) for shell, lost in shells.items()))

    async def _settle_shell(self, subshell_id: str, lost: list[Lost]) -> None:
        """Wait for the reply to a probe of one subshell, then send the replies that are still missing.

        A subshell replies in order, so a reply that is missing after the probe's reply is lost.
        """
        msg_id, question = self._make_replies().probe(subshell_id)
        self._probes[msg_id] = asyncio.get_running_loop().create_future()
        try:
            self._send(Channel.SHELL, question)
            await self._probes[msg_id]
        finally:
            del self._probes[msg_id]
        for request, asked in lost:
            await self._answer(request, asked, *_NO_REPLY)

    async def _lost(self) -> list[Lost]:
        """Return the requests that have no reply."""
        lost: list[Lost] = [(None, asked) for asked in self._requests.unanswered_others.values()]
        for msg_id, request in list(self._requests.unanswered.items()):
            if asked := await request_frames(self._record, request.first_seq):
                lost.append((request, asked))
            else:  # the record no longer has the request, so nothing can reply to it
                self._requests.unanswered.pop(msg_id, None)
        return lost

    async def _answer(self, request: IndexedRequest | None, asked: list[bytes], ename: str, evalue: str) -> None:
        if request is not None:
            await self._answer_cell(request, asked, ename, evalue + _OF_CELLS)
        elif kind_and_id(asked[header_place(asked)]) in self._requests.unanswered_others:
            self._make_replies().reply(asked, {"status": "error", "ename": ename, "evalue": evalue, "traceback": []})

    async def _answer_cell(self, request: IndexedRequest, asked: list[bytes], ename: str, evalue: str) -> None:
        """Reply with the error that the kernel has published for the cell, or else with the given error."""
        span = Span(request.first_seq, request.last_seq, request.bytes)
        error = await published_error(self._record, span, lambda entry: self._requests.is_part(entry, request))
        if self._requests.unanswered.get(request.msg_id) is not request:
            return  # the reply has arrived
        if error is not None:
            self._make_replies().reply(asked, {"status": "error", **error})
        else:
            self._make_replies().fail_ended(asked, ename, evalue)
