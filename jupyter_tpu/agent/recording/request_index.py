"""Index the execute requests in a kernel's record, with the code and progress of each.

The index depends only on the record's entries, so a later agent can rebuild it from them. Its times are seconds of the
boot clock (`worker_clock`), so that setting the wall clock doesn't change their order or their ages. `observe` runs for
every message, so it parses only new parent headers, and content only in the few messages that start or complete a
request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from jupyter_tpu.agent.recording.jupyter_messages import AGENT_SESSION, header_place, json_object, kind_and_id, text_of
from jupyter_tpu.wire.entries import Entry
from jupyter_tpu.wire.multipart import Channel

ExecutionState = Literal["starting", "idle", "busy"]

# Maximum number of requests, more than any notebook has cells. Bounds the index, the checkpoint and the results of
# `list_requests`.
_MOST_REQUESTS = 2000
# Number of pending requests other than cells. Bounds memory if a kernel never replies.
_MOST_OTHERS = 1000
# Size of the cache of parsed parent headers; only a few requests have messages at the same time.
_MOST_PARENTS = 64
# Number of `input()` replies per request; bounds an endless loop of prompts.
_MOST_ANSWERS = 100
# Jupyter Server and JupyterLab ignore the kernel states that these requests cause (`untracked_message_types`). If a
# page received such a "busy" while it was opening, it would never receive the "idle" that follows. It would then show a
# busy kernel until the next cell runs.
_NOT_COUNTED = ("kernel_info_request", "comm_info_request", "interrupt_request", "shutdown_request", "debug_request")
_OF_WIDGETS = ("comm_open", "comm_msg", "comm_close")
# A page with widgets occasionally reports to the kernel that it is still open. The kernel handles the report in a few
# ms. A busy state that is shorter than this does not count as activity.
_MOMENT_S = 1.0


@dataclass
class IndexedRequest:
    """One execute_request, as shown by `list_requests`.

    Attributes:
        cell_id: id of the cell, as sent by JupyterLab and Notebook; None if there is none.
        first_seq, last_seq: seqs of the request itself and of its latest message.
        bytes, messages: size and number of these messages.
        asked_at, started_at, ended_at: times of the request, start and end (seconds of the boot clock; in JSON, Unix
            seconds); None until then.
        ends_others: whether the kernel aborts waiting requests if this request fails.
        state: queued | running | done.
        status: ok | error | aborted, from the reply; lost if the kernel exited first; None while unknown.
        input_seq: seq of the input_request that is waiting for a reply; None if there is none.
        open_question: msg_id of that input_request if the reply may be recorded; empty for a password.
        answers: seqs of the newest replies to ``input()``.
        reply_seq: seq of the reply; None if there is none yet.
        is_settled: whether the agent has replied in place of the kernel; a later reply from the kernel is dropped.
    """

    msg_id: str
    session: str
    cell_id: str | None
    first_seq: int
    last_seq: int
    bytes: int
    messages: int
    asked_at: float
    ends_others: bool = True
    state: str = "queued"
    status: str | None = None
    execution_count: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    input_seq: int | None = None
    reply_seq: int | None = None
    is_settled: bool = False
    open_question: str = ""
    answers: list[int] = field(default_factory=list)


class RequestIndex:
    """The newest 2,000 execute requests of a kernel, and whether it is busy.

    Attributes:
        outputs: number of outputs since this index was created.
        state_since: when the kernel became busy, idle or starting (seconds of the boot clock).
        begun: number of requests of any kind started by the kernel since this index was created.
        generation: number of the kernel's starts in the record; None if an older agent's checkpoint lacks it.
        unanswered: requests that are done but have no reply yet, by msg_id. The reply usually arrives a moment later.
        unanswered_others: frames, without content, of other requests that are done but have no reply yet, by kind and
            msg_id. These requests are not in the record, so a later agent has no access to them.
    """

    def __init__(self) -> None:
        self._requests: OrderedDict[str, IndexedRequest] = OrderedDict()
        self._by_parent: dict[bytes, IndexedRequest | None] = {}
        self._busy_with: set[tuple[str, str]] = set()
        self._has_spoken = False
        self.state_since: float | None = None
        self.outputs = 0
        self.begun = 0
        self.generation: int | None = 0
        self.unanswered: dict[str, IndexedRequest] = {}
        self.unanswered_others: dict[tuple[str, str], list[bytes]] = {}
        self._open_others: dict[tuple[str, str], list[bytes]] = {}

    @property
    def execution_state(self) -> ExecutionState:
        """The kernel's execution state: starting, idle or busy.

        The kernel is busy during a cell, and during any other request for which Jupyter reports it as busy.
        """
        if self._busy_with:
            return "busy"
        return "idle" if self._has_spoken else "starting"

    def is_executing(self, now: float) -> bool:
        """Whether a cell is running or waiting, or other user code (such as a widget's) has been running for some time.

        Args:
            now: seconds of the boot clock.
        """
        kinds = {kind for kind, _ in self._busy_with}
        if "execute_request" in kinds or any(request.state != "done" for request in self._requests.values()):
            return True
        # If the wall clock was set back between two agents, the time is negative. Count that as busy, because otherwise
        # auto-stop could interrupt the work.
        return not kinds.isdisjoint(_OF_WIDGETS) and not 0 <= now - (self.state_since or 0.0) < _MOMENT_S

    def to_json(self, booted_at: float) -> dict[str, Any]:
        """Return the whole index for `load`, so that a later agent doesn't need to read the whole record."""
        return {
            "requests": self.describe(booted_at),
            "busy_with": [list(key) for key in self._busy_with],
            "has_spoken": self._has_spoken,
            "state_since": None if self.state_since is None else booted_at + self.state_since,
            "generation": self.generation,
        }

    def load(self, state: Mapping[str, Any], booted_at: float) -> None:
        """Restore the state from `to_json`.

        Args:
            booted_at: when this machine booted (Unix seconds).

        Raises:
            KeyError, TypeError: the data isn't from `to_json`.
        """
        requests = [IndexedRequest(**_moved(request, -booted_at)) for request in state["requests"]]
        self._requests = OrderedDict((request.msg_id, request) for request in requests)
        self._busy_with = {(kind, msg_id) for kind, msg_id in state["busy_with"]}
        since, self._has_spoken = state["state_since"], state["has_spoken"]
        self.state_since = None if since is None else since - booted_at
        self.generation = state.get("generation")
        ended = (each for each in requests if each.state == "done" and each.status != "lost")
        self.unanswered = {each.msg_id: each for each in ended if each.reply_seq is None}

    def get(self, msg_id: Any) -> IndexedRequest | None:
        """Return the request with this id, or None if there is no such request or it is too old."""
        return self._requests.get(msg_id) if isinstance(msg_id, str) else None

    def all(self) -> list[IndexedRequest]:
        """Return all requests in order of arrival."""
        return list(self._requests.values())

    def would_abort_at(self, moment: float) -> bool:
        """Whether the kernel would have aborted a cell that arrived at that moment (seconds of the boot clock)."""
        return any(
            request.status == "error" and request.ends_others and not request.is_settled
            for request in self._requests.values()
            if request.asked_at <= moment and (request.ended_at is None or moment <= request.ended_at)
        )

    def describe(self, booted_at: float) -> list[dict[str, Any]]:
        """Return all requests as JSON objects, in order of arrival.

        Args:
            booted_at: when this machine booted (Unix seconds).
        """
        return [_moved(asdict(request), booted_at) for request in self._requests.values()]

    def expect_reply(self, parts: Sequence[bytes]) -> None:
        """Record that a request other than a cell is being sent to the kernel on the shell channel."""
        if not (place := header_place(parts)):
            return
        kind, msg_id = kind_and_id(parts[place])
        if kind.endswith("_request"):  # widgets' messages have no reply
            self._open_others[kind, msg_id] = [*parts[: place + 1], b"{}", b"{}", b"{}"]
            if len(self._open_others) > _MOST_OTHERS:
                del self._open_others[next(iter(self._open_others))]

    def observe(self, seq: int, time: float, channel: int, parts: Sequence[bytes], size: int) -> None:
        """Update the index with an entry of `size` bytes. Entries must be passed in the order of the record."""
        if channel == Channel.EVENT:
            self._observe_event(json_object(parts[0]), time)
        elif place := header_place(parts):
            if channel == Channel.REQUEST:
                self._observe_request(seq, time, parts, place, size)
            else:
                self._observe_answer(seq, time, channel, parts, place, size)

    def is_part(self, entry: Entry, request: IndexedRequest) -> bool:
        """Whether an entry is the request itself or belongs to it."""
        if entry.channel == Channel.REQUEST:
            return entry.seq == request.first_seq or entry.seq in request.answers
        place = header_place(entry.parts)
        return bool(place) and self._request_of(entry.parts[place + 1]) is request

    def may_be_recorded(self, question: bytes) -> bool:
        """Whether a reply to ``input()`` is certainly not a password.

        Args:
            question: the reply's parent header, which identifies the input_request if the client sends it.
        """
        msg_id = text_of(json_object(question), "msg_id")
        waiting = [request.open_question for request in self._requests.values() if request.input_seq is not None]
        asked = [each for each in waiting if msg_id in ("", each)] if msg_id in ("", *waiting) else []
        return bool(asked) and all(asked)

    def is_settled(self, parent: bytes) -> bool:
        """Whether the agent has replied to the request with this header."""
        request = self._request_of(parent)
        return request is not None and request.is_settled

    # -- requests from clients

    def _observe_request(self, seq: int, time: float, parts: Sequence[bytes], place: int, size: int) -> None:
        header = json_object(parts[place])
        if header.get("msg_type") == "execute_request":
            self._add(seq, time, header, parts[place + 2 :], size)
        else:
            self._input_came(seq, size)

    def _add(self, seq: int, time: float, header: dict[str, Any], rest: Sequence[bytes], size: int) -> None:
        msg_id, metadata, content = text_of(header, "msg_id"), json_object(rest[0]), json_object(rest[1])
        # ipykernel aborts the requests queued behind a failed one, except in the three cases below.
        is_alone = content.get("silent", False) or header.get("subshell_id") or not content.get("stop_on_error", True)
        self._requests.pop(msg_id, None)
        self.unanswered.pop(msg_id, None)
        self._by_parent.clear()
        self._requests[msg_id] = IndexedRequest(
            msg_id=msg_id,
            session=text_of(header, "session"),
            cell_id=text_of(metadata, "cellId") or None,
            first_seq=seq,
            last_seq=seq,
            bytes=size,
            messages=1,
            asked_at=time,
            ends_others=not is_alone,
        )
        if len(self._requests) > _MOST_REQUESTS:
            done = (old for old, request in self._requests.items() if request.state == "done")
            oldest = next(done, next(iter(self._requests)))
            del self._requests[oldest]
            self.unanswered.pop(oldest, None)

    def _input_came(self, seq: int, size: int) -> None:
        for request in self._requests.values():
            if request.input_seq is not None:
                request.input_seq, request.last_seq = None, seq
                request.bytes += size
                request.messages += 1
                request.answers = [*request.answers, seq][-_MOST_ANSWERS:]

    # -- replies and output from the kernel

    def _observe_answer(
        self, seq: int, time: float, channel: int, parts: Sequence[bytes], place: int, size: int
    ) -> None:
        header, parent = parts[place], parts[place + 1]
        request = self._request_of(parent)
        if request is not None:
            request.last_seq = seq
            request.bytes += size
            request.messages += 1
        elif channel == Channel.SHELL:
            self._close_other(kind_and_id(parent))
        if b'"status"' in header:
            self._observe_status(header, parent, parts[place + 3], time)
        elif channel != Channel.IOPUB or b'"execute_input"' in header:
            if request is not None:
                self._observe_step(request, seq, json_object(header), parts[place + 3])
        # Our own widgets update automatically, so messages of widgets count as output only while a cell is running.
        elif b'"comm_' not in header or (request is not None and request.state == "running"):
            self.outputs += 1

    def _request_of(self, parent: bytes) -> IndexedRequest | None:
        try:
            return self._by_parent[parent]
        except KeyError:
            pass
        kind, msg_id = kind_and_id(parent)
        if len(self._by_parent) >= _MOST_PARENTS:
            self._by_parent.clear()
        # A kernel manager and each of its clients number their messages in their own copy of one session. So two
        # requests of different kinds may have the same ID.
        request = self._by_parent[parent] = self._requests.get(msg_id) if kind == "execute_request" else None
        return request

    def _observe_status(self, header: bytes, parent: bytes, content: bytes, time: float) -> None:
        state = json_object(content).get("execution_state")
        if json_object(header).get("msg_type") != "status" or state not in ("busy", "idle"):
            return
        before, self._has_spoken = self.execution_state, True
        request = self._request_of(parent)
        if state == "busy":
            self.begun += 1
            if (key := kind_and_id(parent))[0] not in _NOT_COUNTED:
                self._busy_with.add(key)
            if request is not None:
                # Without output capture, the reply arrives on another socket and may be read before this status.
                request.state, request.status = "running", request.status if request.reply_seq else None
                request.started_at, request.ended_at = time, None
                self.unanswered.pop(request.msg_id, None)
        else:
            self._busy_with.discard(kind_and_id(parent))
            if request is not None:
                request.state, request.ended_at, request.input_seq = "done", time, None
                if request.reply_seq is None:
                    self.unanswered[request.msg_id] = request
            elif other := self._open_others.get(key := kind_and_id(parent)):
                self.unanswered_others[key] = other
        if self.execution_state != before:
            self.state_since = time

    def _close_other(self, key: tuple[str, str]) -> None:
        self._open_others.pop(key, None)
        self.unanswered_others.pop(key, None)

    def _observe_step(self, request: IndexedRequest, seq: int, header: dict[str, Any], content: bytes) -> None:
        kind = header.get("msg_type")
        if kind == "execute_reply":
            reply = json_object(content)
            request.reply_seq, request.is_settled = seq, header.get("session") == AGENT_SESSION
            # A reply after the kernel's exit comes from the agent, so the outcome stays "lost".
            was_cut_off = request.status == "lost" and request.started_at is not None
            request.status = "lost" if was_cut_off else text_of(reply, "status") or None
            request.execution_count = _count(reply) or request.execution_count
            self.unanswered.pop(request.msg_id, None)
        elif kind == "execute_input":
            request.execution_count = _count(json_object(content))
        elif kind == "input_request":
            is_open = json_object(content).get("password") is False
            request.input_seq, request.open_question = seq, text_of(header, "msg_id") if is_open else ""

    # -- events from the agent

    def _observe_event(self, event: Mapping[str, Any], time: float) -> None:
        if event.get("event") not in ("started", "exited"):
            return
        self._busy_with.clear()
        self._has_spoken = False
        self.state_since = time
        self.generation = int(event.get("generation", 0))
        if event["event"] == "exited":
            kept = event.get("kept") or ()
            for request in self._requests.values():
                if request.state != "done" and request.msg_id not in kept:
                    request.state, request.ended_at, request.input_seq = "done", time, None
                    request.status = request.status or "lost"


def _moved(request: Mapping[str, Any], by_s: float) -> dict[str, Any]:
    """Return a request as JSON with its times moved."""
    times = {name: request[name] for name in ("asked_at", "started_at", "ended_at")}
    return {**request, **{name: None if at is None else at + by_s for name, at in times.items()}}


def _count(content: dict[str, Any]) -> int | None:
    count = content.get("execution_count")
    return count if isinstance(count, int) else None
