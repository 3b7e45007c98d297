"""What the death of an agent may have left behind, and how the next one ties it up.

A request that was recorded but was still in the dead agent's hands never reached the kernel; it is passed on now. A
reply that was there is lost; the agent makes another from what is recorded, so that nobody waits for ever. Which those
are is known once the kernel has answered a request of the agent's own, because it answers in order. Of a kernel that
does not keep what it says it is not known whether it ran what it seems not to have begun; that is said, and not tried.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from jupyter_tpu.agent.excerpt import Span, first_entry
from jupyter_tpu.agent.intake import PROBE, Intake
from jupyter_tpu.agent.jupyter_messages import DELIMITER, Signer, header_place, is_execute_request, json_object
from jupyter_tpu.agent.record import Record
from jupyter_tpu.agent.request_index import Asked
from jupyter_tpu.wire.entries import Entry
from jupyter_tpu.wire.messages import Channel

log = logging.getLogger(__name__)

_UNKNOWN = "What it said while no agent ran on the worker is lost, and whether it succeeded is not known."

Send = Callable[[Channel, "list[bytes]"], None]


class LooseEnds:
    """The open requests of a kernel that was just adopted; `send` passes a message to the kernel."""

    def __init__(self, record: Record, intake: Intake, signer: Signer, send: Send) -> None:
        self._record = record
        self._intake = intake
        self._signer = signer
        self._send = send
        self._queued = [request for request in intake.requests.all() if request.state == "queued"]
        self._unanswered = [request for request in intake.requests.all() if request.state != "queued"]
        self._unanswered = [request for request in self._unanswered if not request.status]
        self._held: list[list[bytes]] = []
        self._missing = {Channel.SHELL, Channel.IOPUB}
        self._tying: asyncio.Task[None] | None = None
        self._are_tied = not self._queued and not self._unanswered
        if not self._are_tied:
            send(Channel.SHELL, self._message("kernel_info_request", PROBE, b"{}", {}))

    def hold(self, channel: Channel, parts: list[bytes]) -> bool:
        """Whether a request has to wait, so that it does not overtake one that never reached the kernel."""
        is_held = bool(not self._are_tied and self._queued and channel == Channel.SHELL and is_execute_request(parts))
        if is_held:
            self._held.append(parts)
        return is_held

    def probe_answered(self, channel: int, parts: list[bytes]) -> None:
        """The kernel has answered on this channel. Both must, as they need not keep step."""
        content = json_object(parts[header_place(parts) + 3])
        if channel == Channel.SHELL or content.get("execution_state") == "idle":
            self._missing.discard(Channel(channel))
        if not self._missing and not self._are_tied and self._tying is None:
            self._tying = asyncio.create_task(self._tie())

    def close(self) -> None:
        if self._tying is not None:
            self._tying.cancel()

    async def _tie(self) -> None:
        for request in (*self._unanswered, *self._queued):
            asked = await first_entry(self._record, Span(request.first_seq, request.first_seq, 0), lambda _: True)
            # The probe does not ask subshells: there it may still wait, or run.
            if asked and "subshell_id" not in json_object(asked.parts[header_place(asked.parts)]):
                await self._tie_up(request, asked.parts)
        self._are_tied = True
        for parts in self._held:
            self._send(Channel.SHELL, parts)

    async def _tie_up(self, request: Asked, asked: list[bytes]) -> None:
        if request.state == "queued" and self._intake.is_attached:
            log.warning("request %s had not reached the kernel", request.msg_id)
            self._send(Channel.SHELL, asked)
        elif request.state != "done":
            self._intake.event("gap", messages=None, reason=_UNKNOWN)
            self._reply(asked, {"status": "error", "ename": "OutcomeUnknown", "evalue": _UNKNOWN, "traceback": []})
            idle = self._message("status", "jupyter-tpu-", asked[header_place(asked)], {"execution_state": "idle"})
            self._intake.take(Channel.IOPUB, [[b"status", *idle]])
        elif not request.status:
            self._reply(asked, await self._outcome(request))

    async def _outcome(self, request: Asked) -> dict[str, Any]:
        """What the reply must have said."""
        span = Span(request.first_seq, request.last_seq, request.bytes)
        requests = self._intake.requests
        error = await first_entry(
            self._record, span, lambda entry: requests.is_part(entry, request) and _is_error(entry)
        )
        if error:
            return {"status": "error", **json_object(error.parts[header_place(error.parts) + 3])}
        return {"status": "ok", "payload": [], "user_expressions": {}, "execution_count": request.execution_count}

    def _reply(self, asked: list[bytes], content: dict[str, Any]) -> None:
        log.warning("a reply was lost; it is made anew")
        place = header_place(asked)
        message = self._message("execute_reply", "jupyter-tpu-", asked[place], content)
        self._intake.take(Channel.SHELL, [[*asked[: place - 2], *message]])

    def _message(self, kind: str, prefix: str, parent: bytes, content: dict[str, Any]) -> list[bytes]:
        header = {
            "msg_id": prefix + uuid.uuid4().hex,
            "msg_type": kind,
            "username": "agent",
            "session": "jupyter-tpu-agent",
            "date": datetime.now(timezone.utc).isoformat(),
            "version": "5.3",
        }
        frames = [json.dumps(header).encode(), parent, b"{}", json.dumps(content).encode()]
        return [DELIMITER, self._signer.sign(frames), *frames]


def _is_error(entry: Entry) -> bool:
    header = entry.parts[header_place(entry.parts)]
    return entry.channel == Channel.IOPUB and b'"error"' in header and json_object(header).get("msg_type") == "error"
