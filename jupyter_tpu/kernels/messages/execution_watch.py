"""Log the code that any client executes on a kernel, by watching the kernel's live messages.

This module reads every message, so for speed it parses a parent header only if it differs from the previous one.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from jupyter_tpu.agent.recording.jupyter_messages import header_place, json_object, text_of
from jupyter_tpu.errors import TpuError
from jupyter_tpu.kernels.messages.execution_log import ExecutionLog, LoggedRun, State
from jupyter_tpu.node_end import NodeEnd

log = logging.getLogger(__name__)

Call = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]

# A request's first messages in the record: the request itself, the status "busy", and execute_input.
_MESSAGES_BEFORE_OUTPUT = 3
_OUTPUTS = (b'"stream"', b'"display_data"', b'"execute_result"', b'"error"')
_STATES: dict[str, State] = {"ok": "ok", "error": "error", "aborted": "aborted", "abort": "aborted"}


class ExecutionWatch:
    """An observer that reads a kernel's messages in order and logs the code that the kernel runs.

    Attributes:
        node: returns the host key alias of the kernel's worker; see `LoggedRun.node`.
    """

    def __init__(self, runs: ExecutionLog) -> None:
        self.node: Callable[[], str] = str
        self._runs = runs
        self._last_parent = b""
        self._last_id = ""

    @property
    def ran_on(self) -> str:
        """The host key alias of the worker on which the last run took place; empty if there are no runs."""
        return self._runs.ran_on

    def begin(self) -> None:
        """Start an empty log for a new kernel process."""
        self._runs.begin()

    def resume(self) -> None:
        """Continue the log of a kernel that was started by an earlier server."""
        self._runs.resume()

    def lose(self, end: NodeEnd, at: float) -> None:
        """See `ExecutionLog.lose`."""
        self._runs.lose(end.message, at, end.to_json())

    def note_successor(self) -> None:
        """See `ExecutionLog.note_successor`."""
        self._runs.note_successor()

    def lost_code(self) -> tuple[str, ...]:
        """Return the code of lost cells that had succeeded and that the user has not yet rerun or dismissed."""
        lost = self._runs.lost()
        return tuple(run.code for run in lost.runs if run.state == "ok") if lost else ()

    async def update_from_record(self, call: Call) -> None:
        """Update open runs from the record after a period without a server; a failure is only logged."""
        try:
            requests = (await call("list_requests", {}))["requests"]
            for each in requests:
                self._learn(each["msg_id"], each["state"], each["status"], int(each["messages"]))
        except (TpuError, KeyError, TypeError, ValueError) as error:
            log.info("what ran without a server is not known: %s", error)

    def _learn(self, msg_id: str, state: str, status: str | None, messages: int) -> None:
        if not self._runs.is_open(msg_id):
            return
        if state == "done":
            self._runs.move(msg_id, _STATES.get(status or "", "error"))
        elif state == "running":
            more = messages - _MESSAGES_BEFORE_OUTPUT - self._runs.outputs_of(msg_id)
            self._runs.move(msg_id, "running", outputs=max(more, 0))

    def observe(self, channel: str, parts: Sequence[bytes]) -> None:
        """Log a message from the kernel, or from a client to the kernel, if it concerns a run."""
        place = 0 if channel == "event" else header_place(parts)  # events are JSON without a header
        if place and channel == "request":
            self._asked(parts[place : place + 4])
        elif place and channel in ("iopub", "shell"):
            self._answered(channel, parts[place : place + 4])

    def _asked(self, frames: Sequence[bytes]) -> None:
        header = json_object(frames[0])
        if header.get("msg_type") != "execute_request":
            return
        content = json_object(frames[3])
        code = text_of(content, "code")
        # Silent requests come from front ends, and rerunning them would be useless.
        if code.strip() and not content.get("silent") and content.get("store_history", True):
            cell_id = text_of(json_object(frames[2]), "cellId") or None
            msg_id = text_of(header, "msg_id")
            self._runs.add(LoggedRun(msg_id=msg_id, cell_id=cell_id, code=code, node=self.node()))

    def _answered(self, channel: str, frames: Sequence[bytes]) -> None:
        msg_id = self._parent_id(frames[1])
        if not self._runs.is_open(msg_id):
            return
        if channel == "shell":
            status = text_of(json_object(frames[3]), "status")
            self._runs.move(msg_id, _STATES.get(status, "error"))
        elif b'"execute_input"' in frames[0]:
            self._runs.move(msg_id, "running")
        elif any(kind in frames[0] for kind in _OUTPUTS):
            self._runs.move(msg_id, outputs=1)

    def _parent_id(self, parent: bytes) -> str:
        if parent != self._last_parent:
            self._last_parent, self._last_id = parent, text_of(json_object(parent), "msg_id")
        return self._last_id
