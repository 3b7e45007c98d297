"""Reduce the messages of one kernel, in the order of its record, to requests and their shared displays.

All requests share one table of displays, because an update may come from a different cell. A display that no output
shows any more is removed from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from jupyter_tpu.outputs.execute_request import Request
from jupyter_tpu.outputs.items import Bundle, Display, bundle_of, count_of, display_id_of
from jupyter_tpu.outputs.parsing import Malformed, Message, json_object, parse

TEXT_HEAD = 20_000
TEXT_TAIL = 180_000
"""Number of characters to keep at the start and at the end of each stream output.

Measured in JupyterLab 4.6: drawing 200 kB of text takes 57 ms, 1 MB blocks the page for 0.4 s, and 10 MB for 2.5 s.
"""


Arrived = Callable[[str], int]
"""A function that returns up to which seq a session's page has received all messages, given the session's id."""


class Reducer:
    """A reducer of a kernel's record, or of the messages of some requests; `feed` receives one message at a time.

    Args:
        head, tail: number of characters kept at the start and the end of each stream output.
        arrived: what pages have received. Text that an Output widget captured on a page is in the widget, whose state
            outlives the page; text that no page has received is added to the cell, so that it is not lost.

    Attributes:
        requests: by message id, in the order in which they were sent.
        skipped: number of malformed messages.
        foreign: number of messages that belong to no execute_request (completion, inspection and so on).
        comms: number of comm messages, whose state is in the kernel and in the front end.
    """

    def __init__(self, *, head: int = TEXT_HEAD, tail: int = TEXT_TAIL, arrived: Arrived = lambda _session: 0) -> None:
        self.requests: dict[str, Request] = {}
        self.skipped = self.foreign = self.comms = 0
        self._arrived = arrived
        self._head = head
        self._tail = tail
        self._bundles: WeakValueDictionary[str, Bundle] = WeakValueDictionary()
        self._capturing: dict[str, str] = {}  # an Output widget's comm_id → the request whose outputs it captures
        self._waiting_for_input: Request | None = None

    def feed(self, seq: int, channel: str, parts: Sequence[bytes]) -> None:
        """Process the next message of the record; count and skip a malformed one."""
        handle = _CHANNELS.get(channel)
        if handle is None:
            return
        try:
            handle(self, seq, parts)
        except Malformed:
            self.skipped += 1

    def omit(self, msg_id: str, size: int) -> None:
        """Record that `size` bytes of a request's stream messages are missing at this position."""
        if msg_id in self.requests:
            self.requests[msg_id].omit(size)

    # -- channels

    def _handle_request(self, seq: int, parts: Sequence[bytes]) -> None:
        message = parse(seq, parts)
        if message.kind == "execute_request":
            request = self._request(message.header)
            request.record_request(message, json_object(message.metadata))
            request.record_seq(seq)
        elif message.kind == "input_reply":
            self._answer_input(message)

    def _handle_reply(self, seq: int, parts: Sequence[bytes]) -> None:
        message = parse(seq, parts)
        request = self._request_of(message)
        if request and message.kind == "execute_reply":
            request.record_seq(seq)
            request.record_reply(message)

    def _handle_stdin(self, seq: int, parts: Sequence[bytes]) -> None:
        message = parse(seq, parts)
        request = self._request_of(message)
        if request and message.kind == "input_request":
            request.record_seq(seq)
            request.mark_busy(message)
            request.input = message
            self._waiting_for_input = request

    def _handle_event(self, _seq: int, parts: Sequence[bytes]) -> None:
        event = json_object(parts[0]) if parts else {}
        if event.get("event") == "exited":
            kept = event.get("kept")  # cells that wait for the next process
            for msg_id, request in self.requests.items():
                if not isinstance(kept, list) or msg_id not in kept:
                    request.mark_lost()
        elif event.get("event") == "gap":
            self._note_gap(event)

    def _handle_output(self, seq: int, parts: Sequence[bytes]) -> None:
        message = parse(seq, parts)
        if message.kind.startswith("comm_"):
            self._watch_comm(message)
        if message.kind in _DISPLAYING:  # a display without a known request may still update a visible one
            self._update(message)
        request = self._request_of(message)
        handle = _OUTPUTS.get(message.kind)
        if request:
            request.record_seq(seq)
            request.mark_busy(message)
            if handle and not (self._is_captured(message, request) and seq <= self._arrived(request.session)):
                handle(self, message, request)

    # -- outputs

    def _update(self, message: Message) -> None:
        """Update all displays with the message's display_id. Displays with the same id have the same content."""
        known = self._bundles.get(display_id_of(message))
        if known is not None:
            known.replace_with(bundle_of(message))

    def _display(self, message: Message, request: Request) -> None:
        display_id, bundle = display_id_of(message), bundle_of(message)
        is_result = message.kind == "execute_result"
        if display_id:
            bundle = self._bundles.setdefault(display_id, bundle)
        request.add(Display(bundle, message, display_id, is_result, count_of(message) if is_result else None))
        request.record_count(message)

    def _clear(self, message: Message, request: Request) -> None:
        request.clear(wait=bool(message.content.get("wait")))

    def _answer_input(self, message: Message) -> None:
        waiting = self._waiting_for_input
        if waiting and waiting.input:
            # some clients send no parent; then the reply can only be for the input that the kernel is waiting for
            answered = message.parent.get("msg_id")
            if answered is None or answered == waiting.input.header.get("msg_id"):
                waiting.record_input_reply(message)

    def _note_gap(self, event: dict[str, Any]) -> None:
        """Add a notice about lost messages to the running cells, because the cell of these messages is unknown."""
        count = event.get("messages")
        what = f"{count} messages" if isinstance(count, int) else "Messages"
        for request in self.requests.values():
            if request.state == "running":
                request.add_notice(f"[{what} of this kernel were lost: {event.get('reason') or 'the agent stopped'}]\n")

    # -- comms

    def _watch_comm(self, message: Message) -> None:
        """Track Output widgets, which capture outputs of a cell; other comms are handled only by front ends."""
        self.comms += 1
        comm_id, state = message.content.get("comm_id"), _widget_state(message)
        if not isinstance(comm_id, str):
            raise Malformed("a comm without an id")
        if "msg_id" in state:  # the request that ipywidgets' OutputModel captures; empty when it stops
            msg_id = state["msg_id"]
            self._capturing[comm_id] = msg_id if isinstance(msg_id, str) else ""

    def _is_captured(self, message: Message, request: Request) -> bool:
        """Return whether an Output widget captures a message of a cell."""
        is_captured = message.kind not in _OF_THE_CELL and request.msg_id in self._capturing.values()
        request.captured += is_captured
        return is_captured

    # -- requests

    def _request(self, header: dict[str, Any]) -> Request:
        msg_id = header.get("msg_id")
        if not isinstance(msg_id, str):
            raise Malformed("a header without a msg_id")
        if msg_id not in self.requests:
            self.requests[msg_id] = Request(msg_id, header, head=self._head, tail=self._tail)
        return self.requests[msg_id]

    def _request_of(self, message: Message) -> Request | None:
        """Return the request to which a message belongs.

        If the execute_request itself is no longer in the record, the request is created from the message's parent
        header.
        """
        msg_id = message.parent.get("msg_id")
        known = self.requests.get(msg_id) if isinstance(msg_id, str) else None
        if known is None and message.parent.get("msg_type") == "execute_request":
            return self._request(message.parent)
        self.foreign += known is None
        return known


def _widget_state(message: Message) -> dict[str, Any]:
    data = message.content.get("data")
    state = data.get("state") if isinstance(data, dict) else None
    return state if isinstance(state, dict) else {}


_CHANNELS: dict[str, Callable[[Reducer, int, Sequence[bytes]], None]] = {
    "request": Reducer._handle_request,
    "shell": Reducer._handle_reply,
    "stdin": Reducer._handle_stdin,
    "event": Reducer._handle_event,
    "iopub": Reducer._handle_output,
}

_OF_THE_CELL = frozenset({"status", "execute_input"})  # no widget captures these

_DISPLAYING = frozenset({"display_data", "update_display_data", "execute_result"})

_OUTPUTS: dict[str, Callable[[Reducer, Message, Request], None]] = {
    "stream": lambda _reducer, message, request: request.add_stream(message),
    "display_data": Reducer._display,
    "execute_result": Reducer._display,
    "error": lambda _reducer, message, request: request.add_error(message),
    "clear_output": Reducer._clear,
    "status": lambda _reducer, message, request: request.record_status(message),
    "execute_input": lambda _reducer, message, request: request.record_execute_input(message),
}
