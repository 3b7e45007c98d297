"""Settle the requests that were open when an agent died; the next agent does so when it takes over the kernel.

A request that the dead agent had recorded but not passed on never reached the kernel; the next agent passes it on. A
reply that the dead agent had received but not recorded is lost; the next agent makes another from the record, so that
no client waits forever.

The agent can tell which requests those are once the kernel has read everything from the dead agent's connection. It
sends a request of its own, the probe, and waits for its answer. A kernel reads from its connections in turn, so the
answer may overtake requests that wait on the old one. The agent sends probes until the kernel has started nothing else
between two answers.

A kernel with output capture keeps all its messages and drops a request that comes twice. Any other kernel may or may
not have run a request that it seems not to have started. The agent does not repeat such a request, and the reply says
that the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from jupyter_tpu.agent.kernels.replies import Replies
from jupyter_tpu.agent.recording.excerpt import Span, asked_frames, published_error
from jupyter_tpu.agent.recording.jupyter_messages import header_place, is_execute_request, json_object, subshell_of
from jupyter_tpu.agent.recording.record import Record
from jupyter_tpu.agent.recording.recorder import Recorder
from jupyter_tpu.agent.recording.request_index import IndexedRequest
from jupyter_tpu.wire.multipart import Channel

log = logging.getLogger(__name__)

_UNKNOWN = "Output from while no agent ran on the worker is lost, and whether the cell succeeded is unknown."

Send = Callable[[Channel, "list[bytes]"], None]


class Takeover:
    """The open requests of a kernel that was just adopted.

    Args:
        recorder: the kernel's recorder.
        replies: makes replies in place of the kernel.
        send: passes a message to the kernel.
        on_done: called once they are settled.

    Attributes:
        is_done: whether they are settled, or there are none.
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
        """Hold a cell that would overtake one that never reached the kernel; return whether it was held."""
        is_held = bool(not self.is_done and self._queued and channel == Channel.SHELL and is_execute_request(parts))
        if is_held:
            header = json_object(parts[header_place(parts)])
            self._held.append((self._recorder.requests.get(header.get("msg_id")), parts))
        return is_held

    def probe_answered(self, channel: int, parts: list[bytes]) -> None:
        """Note the kernel's answer to a probe on one channel; both shell and iopub must have answered."""
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
        """Stop settling; the kernel keeps running."""
        if self._settling is not None:
            self._settling.cancel()

    def abort(self) -> None:
        """Abort the held cells, because the kernel has ended."""
        self.close()
        held, self._held = self._held, []
        for _, parts in held:
            self._replies.abort(parts)

    # -- internals -----------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        self._missing = {Channel.SHELL, Channel.IOPUB}
        self._probe, question = self._replies.probe()
        self._send(Channel.SHELL, question)

    async def _settle_all(self) -> None:
        for request in (*self._unanswered, *self._queued):
            asked = await asked_frames(self._record, request.first_seq)
            # The probe does not go through subshells: a request may still wait or run there.
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
        # With output capture: one that still seems queued has never reached the kernel. No reply is lost with an agent,
        # so one that is missing was never sent (`lost_replies`).
        if self._recorder.is_attached:
            if request.state == "queued":
                self._pass_on(request, asked)
        # It has run, and only its reply is missing.
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
        """Whether the kernel would have aborted this cell, because an earlier cell failed while it waited."""
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
    """Abort requests that an earlier agent held for the next process, or had passed to a process that has ended."""
    for request in requests:
        if asked := await asked_frames(record, request.first_seq):
            replies.abort(asked)
