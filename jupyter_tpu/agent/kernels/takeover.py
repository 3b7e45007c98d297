"""What the death of an agent may have left behind, and how the next one ties it up.

A request that was recorded but was still in the dead agent's hands never reached the kernel; it is passed on now. A
reply that was there is lost; the agent makes another from what is recorded, so that nobody waits for ever.

Which requests those are is known once the kernel has nothing left to take from the dead agent's connection. The agent
asks the kernel something of its own and waits for that very answer: what answers an earlier agent says nothing. A
kernel takes turns between connections, so the answer may overtake requests that wait on the old one; the agent asks
again until the kernel has begun nothing else between two answers.

A kernel with our line keeps all that it says, and drops a request that comes twice. Of any other kernel it is not known
whether it ran what it seems not to have begun; that is said, and not tried.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from jupyter_tpu.agent.kernels.replies import Replies
from jupyter_tpu.agent.recording.excerpt import Span, first_entry
from jupyter_tpu.agent.recording.jupyter_messages import header_place, is_execute_request, json_object
from jupyter_tpu.agent.recording.log import Record
from jupyter_tpu.agent.recording.recorder import Recorder
from jupyter_tpu.agent.recording.request_index import IndexedRequest
from jupyter_tpu.wire.entries import Entry
from jupyter_tpu.wire.messages import Channel

log = logging.getLogger(__name__)

_UNKNOWN = "What it said while no agent ran on the worker is lost, and whether it succeeded is not known."

Send = Callable[[Channel, "list[bytes]"], None]


class Takeover:
    """The open requests of a kernel that was just adopted; `send` passes a message to the kernel."""

    def __init__(self, record: Record, intake: Recorder, replies: Replies, send: Send) -> None:
        self._record = record
        self._intake = intake
        self._replies = replies
        self._send = send
        requests = intake.requests.all()
        self._queued = [request for request in requests if request.state == "queued" and not request.status]
        self._unanswered = [request for request in requests if request.state != "queued" and not request.status]
        self._held: list[tuple[IndexedRequest | None, list[bytes]]] = []
        self._probe = ""
        self._missing: set[Channel] = set()
        self._begun: int | None = None
        self._tying: asyncio.Task[None] | None = None
        self._are_tied = not self._queued and not self._unanswered
        if not self._are_tied:
            self._ask()

    def hold(self, channel: Channel, parts: list[bytes]) -> bool:
        """Whether a request has to wait, so that it does not overtake one that never reached the kernel."""
        is_held = bool(not self._are_tied and self._queued and channel == Channel.SHELL and is_execute_request(parts))
        if is_held:
            header = json_object(parts[header_place(parts)])
            self._held.append((self._intake.requests.get(header.get("msg_id")), parts))
        return is_held

    def probe_answered(self, channel: int, parts: list[bytes]) -> None:
        """The kernel has answered on this channel. Both must, as they need not keep step."""
        place = header_place(parts)
        if json_object(parts[place + 1]).get("msg_id") != self._probe:
            return
        if channel == Channel.SHELL or json_object(parts[place + 3]).get("execution_state") == "idle":
            self._missing.discard(Channel(channel))
        if self._missing or self._are_tied or self._tying is not None:
            return
        if self._intake.requests.begun != self._begun:
            self._begun = self._intake.requests.begun
            self._ask()
        else:
            self._tying = asyncio.create_task(self._tie())

    def close(self) -> None:
        """Let go of the kernel, which goes on."""
        if self._tying is not None:
            self._tying.cancel()

    def abort(self) -> None:
        """The kernel has ended: what was held is never run."""
        self.close()
        held, self._held = self._held, []
        for _, parts in held:
            self._replies.abort(parts)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        self._missing = {Channel.SHELL, Channel.IOPUB}
        self._probe, question = self._replies.probe()
        self._send(Channel.SHELL, question)

    async def _tie(self) -> None:
        for request in (*self._unanswered, *self._queued):
            asked = await _asked(self._record, request)
            # The probe does not ask subshells: there it may still wait, or run.
            if asked and not _subshell_of(asked):
                await self._tie_up(request, asked)
        for held, parts in self._held:
            if held is not None and self._is_behind_failure(held):
                self._replies.abort(parts)
            else:
                self._send(Channel.SHELL, parts)
        self._held, self._are_tied = [], True

    async def _tie_up(self, request: IndexedRequest, asked: list[bytes]) -> None:
        if request.state == "done":
            if not request.status:
                self._replies.reply(asked, await self._outcome(request))
        elif self._intake.is_attached:
            if request.state == "queued":
                self._pass_on(request, asked)
        else:
            self._intake.event("gap", messages=None, reason=_UNKNOWN)
            unknown = {"ename": "OutcomeUnknown", "evalue": _UNKNOWN, "traceback": []}
            self._replies.end(asked, {"status": "error", **unknown})

    def _pass_on(self, request: IndexedRequest, asked: list[bytes]) -> None:
        if self._is_behind_failure(request):
            self._replies.abort(asked)
        else:
            log.warning("request %s had not reached the kernel", request.msg_id)
            self._send(Channel.SHELL, asked)

    def _is_behind_failure(self, request: IndexedRequest) -> bool:
        """Whether a cell failed that ends what waits behind it; the kernel would have aborted this one."""
        return any(
            failed.status == "error" and failed.ends_others
            for failed in self._intake.requests.all()
            if failed.first_seq < request.first_seq < (failed.reply_seq or 0)
        )

    async def _outcome(self, request: IndexedRequest) -> dict[str, Any]:
        """What the reply must have said."""
        span = Span(request.first_seq, request.last_seq, request.bytes)
        requests = self._intake.requests
        error = await first_entry(
            self._record, span, lambda entry: requests.is_part(entry, request) and _is_error(entry)
        )
        if error:
            return {"status": "error", **json_object(error.parts[header_place(error.parts) + 3])}
        return {"status": "ok", "payload": [], "user_expressions": {}, "execution_count": request.execution_count}


async def abort_all(record: Record, replies: Replies, requests: Iterable[IndexedRequest]) -> None:
    """Answer what an earlier agent kept for a process that was to be started, or had passed to one that has ended."""
    for request in requests:
        if asked := await _asked(record, request):
            replies.abort(asked)


async def _asked(record: Record, request: IndexedRequest) -> list[bytes] | None:
    entry = await first_entry(record, Span(request.first_seq, request.first_seq, 0), lambda _: True)
    return entry.parts if entry else None


def _subshell_of(asked: list[bytes]) -> Any:
    return json_object(asked[header_place(asked)]).get("subshell_id")


def _is_error(entry: Entry) -> bool:
    header = entry.parts[header_place(entry.parts)]
    return entry.channel == Channel.IOPUB and b'"error"' in header and json_object(header).get("msg_type") == "error"
