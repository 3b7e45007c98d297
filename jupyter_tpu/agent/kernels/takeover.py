"""Complete the requests that were open when an agent exited, once the next agent takes over the kernel.

If the old agent recorded a request but didn't send it to the kernel, the next agent sends it. If the old agent received
a reply but didn't record it, the reply is lost, and the next agent makes a new reply from the record, so that no client
waits forever.

The agent can identify these requests once the kernel has read all messages from the old agent's connection. The agent
sends its own request, the probe, and waits for the reply. A kernel reads from its connections in rotation, so the
probe's reply may overtake requests that are waiting on the old connection. The agent sends probes until the kernel has
started no other request between two replies.

A kernel with output capture stores all its messages and drops duplicate requests. Without output capture, a request
that seems not to have started may have run after all. The agent doesn't repeat such a request, but replies that the
outcome is unknown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from jupyter_tpu.agent.kernels.replies import Replies
from jupyter_tpu.agent.recording.excerpt import Span, published_error, request_frames
from jupyter_tpu.agent.recording.jupyter_messages import header_place, is_execute_request, json_object, subshell_of
from jupyter_tpu.agent.recording.record import Record
from jupyter_tpu.agent.recording.recorder import Recorder
from jupyter_tpu.agent.recording.request_index import IndexedRequest
from jupyter_tpu.wire.multipart import Channel

log = logging.getLogger(__name__)

_UNKNOWN = "Output from while no agent ran on the worker is lost, and whether the cell succeeded is unknown."

Send = Callable[[Channel, "list[bytes]"], None]


class Takeover:
    """The open requests of a newly adopted kernel.

    Args:
        recorder: the kernel's recorder.
        replies: creates replies on behalf of the kernel.
        send: passes a message to the kernel.
        on_done: called once the requests are complete.

    Attributes:
        is_done: whether all requests are complete, or there were none.
    """

    def __init__(
        self, record: Record, recorder: Recorder, replies: Replies, send: Send, on_done: Callable[[], None]
    ) -> None:
        self._record = record
        self._recorder = recorder
        self._replies = replies
        self._send = send
        self._on_done = on_done
        requests = recorder.requests.all()
        self._queued = [request for request in requests if request.state == "queued" and not request.status]
        self._unanswered = [request for request in requests if request.state != "queued" and not request.status]
        self._held: list[tuple[IndexedRequest | None, list[bytes]]] = []
        self._probe = ""
        self._missing: set[Channel] = set()
        self._begun: int | None = None
        self._settling: asyncio.Task[None] | None = None
        self.is_done = not self._queued and not self._unanswered
        if not self.is_done:
            self._ask()

    def hold(self, channel: Channel, parts: list[bytes]) -> bool:
        """Delay a cell if an earlier cell hasn't reached the kernel yet; return whether it was delayed."""
        is_held = bool(not self.is_done and self._queued and channel == Channel.SHELL and is_execute_request(parts))
        if is_held:
            header = json_object(parts[header_place(parts)])
            self._held.append((self._recorder.requests.get(header.get("msg_id")), parts))
        return is_held

    def probe_answered(self, channel: int, parts: list[bytes]) -> None:
        """Record the kernel's reply to a probe on one channel; replies on both shell and iopub are needed."""
        place = header_place(parts)
        if json_object(parts[place + 1]).get("msg_id") != self._probe:
            return
        if channel == Channel.SHELL or json_object(parts[place + 3]).get("execution_state") == "idle":
            self._missing.discard(Channel(channel))
        if self._missing or self.is_done or self._settling is not None:
            return
        if self._recorder.requests.begun != self._begun:
            self._begun = self._recorder.requests.begun
            self._ask()
        else:
            self._settling = asyncio.create_task(self._settle_all())

    def close(self) -> None:
        """Stop handling requests; the kernel keeps running."""
        if self._settling is not None:
            self._settling.cancel()

    def abort(self) -> None:
        """Reply to the delayed cells that they were aborted, because the kernel has exited."""
        self.close()
        held, self._held = self._held, []
        for _, parts in held:
            self._replies.abort(parts)

    def _ask(self) -> None:
        self._missing = {Channel.SHELL, Channel.IOPUB}
        self._probe, question = self._replies.probe()
        self._send(Channel.SHELL, question)

    async def _settle_all(self) -> None:
        for request in (*self._unanswered, *self._queued):
            asked = await request_frames(self._record, request.first_seq)
            # The probe doesn't reach subshells, where a request may still be waiting or running.
            if asked and not subshell_of(asked):
                await self._settle(request, asked)
        for held, parts in self._held:
            if held is not None and self._is_behind_failure(held):
                self._replies.abort(parts)
            else:
                self._send(Channel.SHELL, parts)
        self._held, self.is_done = [], True
        self._on_done()

    async def _settle(self, request: IndexedRequest, asked: list[bytes]) -> None:
        # With output capture, a request that still seems queued never reached the kernel. An agent's exit loses no
        # replies, so a missing reply was never sent (`lost_replies`).
        if self._recorder.is_attached:
            if request.state == "queued":
                self._pass_on(request, asked)
        # The request has run, and only its reply is missing.
        elif request.state == "done":
            if not request.status:
                self._replies.reply(asked, await self._outcome(request))
        else:
            self._recorder.event("gap", messages=None, reason=_UNKNOWN)
            unknown = {"ename": "OutcomeUnknown", "evalue": _UNKNOWN, "traceback": []}
            self._replies.end(asked, {"status": "error", **unknown})

    def _pass_on(self, request: IndexedRequest, asked: list[bytes]) -> None:
        if self._is_behind_failure(request):
            self._replies.abort(asked)
        else:
            log.warning("request %s had not reached the kernel", request.msg_id)
            self._send(Channel.SHELL, asked)

    def _is_behind_failure(self, request: IndexedRequest) -> bool:
        """Whether the kernel would have aborted this cell because an earlier cell failed while this cell waited."""
        return any(
            failed.status == "error" and failed.ends_others
            for failed in self._recorder.requests.all()
            if failed.first_seq < request.first_seq < (failed.reply_seq or 0)
        )

    async def _outcome(self, request: IndexedRequest) -> dict[str, Any]:
        """Rebuild the content of a lost reply from the record."""
        span = Span(request.first_seq, request.last_seq, request.bytes)
        requests = self._recorder.requests
        error = await published_error(self._record, span, lambda entry: requests.is_part(entry, request))
        if error is not None:
            return {"status": "error", **error}
        return {"status": "ok", "payload": [], "user_expressions": {}, "execution_count": request.execution_count}


async def abort_all(record: Record, replies: Replies, requests: Iterable[IndexedRequest]) -> None:
    """Abort requests that an earlier agent delayed for the next process or sent to a process that has exited."""
    for request in requests:
        if asked := await request_frames(record, request.first_seq):
            replies.abort(asked)
