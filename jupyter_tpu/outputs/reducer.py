"""Many requests of one kernel, and the displays they share: messages in, in the order of the record.

Displays are one table for all requests, because an update may come from another cell than the display. A display that
no output shows any more is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from jupyter_tpu.outputs.items import Bundle, Display, bundle_of, count_of, display_id_of
from jupyter_tpu.outputs.parsing import Malformed, Message, json_object, parse
from jupyter_tpu.outputs.request import Request

TEXT_HEAD = 20_000
TEXT_TAIL = 180_000
"""Characters that are kept of each stream output: more would stop a page for seconds when it opens."""


Arrived = Callable[[str], int]


class Reducer:
    """`feed` it the record of a kernel, or the parts of it that belong to the requests of interest.

    Args:
        arrived: up to which seq the page of a session has got everything. What went into an Output widget there is in
            the widget, whose state outlives the page; what no page has got stands in the cell, or it would be nowhere.

    Attributes:
        requests: by message id, in the order in which they were asked.
        skipped: how many messages were no messages, or not as the protocol says.
        foreign: how many belonged to no request: those of completion, inspection and the like.
        comms: how many were of comms, whose state lives in the kernel and in the front end.
    """

    def __init__(self, *, head: int = TEXT_HEAD, tail: int = TEXT_TAIL, arrived: Arrived = lambda _session: 0) -> None:
        self.requests: dict[str, Request] = {}
        self.skipped = self.foreign = self.comms = 0
        self._arrived = arrived
        self._head = head
        self._tail = tail
        self._bundles: WeakValueDictionary[str, Bundle] = WeakValueDictionary()
        self._capturing: dict[str, str] = {}  # an Output widget's comm_id → the request whose outputs it takes
        self._waiting_for_input: Request | None = None

    def feed(self, seq: int, channel: str, parts: Sequence[bytes]) -> None:
        """Take in the next message of the record. Nothing that it holds makes this fail."""
        take = _CHANNELS.get(channel)
        if take is None:
            return
        try:
            take(self, seq, parts)
        except Malformed:
            self.skipped += 1

    def omit(self, msg_id: str, size: int) -> None:
        """`size` bytes of the request's stream messages stand here in the record, and will not be fed."""
        if msg_id in self.requests:
            self.requests[msg_id].omit(size)

    # -- channels ------------------------------------------------------------------------------------------------------

    def _take_request(self, seq: int, parts: Sequence[bytes]) -> None:
        message = parse(seq, parts)
        if message.kind == "execute_request":
            request = self._request(message.header)
            request.ask(message, json_object(message.metadata))
            request.saw(seq)
        elif message.kind == "input_reply":
            self._answer_input(message)

    def _take_reply(self, seq: int, parts: Sequence[bytes]) -> None:
        message = parse(seq, parts)
        request = self._request_of(message)
        if request and message.kind == "execute_reply":
            request.saw(seq)
            request.learn_reply(message)

    def _take_stdin(self, seq: int, parts: Sequence[bytes]) -> None:
        message = parse(seq, parts)
        request = self._request_of(message)
        if request and message.kind == "input_request":
            request.saw(seq)
            request.begin(message)
            request.input = message
            self._waiting_for_input = request

    def _take_event(self, _seq: int, parts: Sequence[bytes]) -> None:
        event = json_object(parts[0]) if parts else {}
        if event.get("event") == "exited":
            kept = event.get("kept")  # cells that wait for the next process
            for msg_id, request in self.requests.items():
                if not isinstance(kept, list) or msg_id not in kept:
                    request.lose()
        elif event.get("event") == "gap":
            self._tell_gap(event)

    def _take_output(self, seq: int, parts: Sequence[bytes]) -> None:
        message = parse(seq, parts)
        if message.kind.startswith("comm_"):
            self._watch_comm(message)
        if message.kind in _DISPLAYING:
            self._update(message)
        request = self._request_of(message)
        take = _OUTPUTS.get(message.kind)
        if request:
            request.saw(seq)
            request.begin(message)
            if take and not (self._is_captured(message, request) and seq <= self._arrived(request.session)):
                take(self, message, request)

    # -- outputs -------------------------------------------------------------------------------------------------------

    def _update(self, message: Message) -> None:
        """A display's name stands for all its places: a second display of the name changes the earlier ones too."""
        known = self._bundles.get(display_id_of(message))
        if known is not None:
            known.become(bundle_of(message))

    def _display(self, message: Message, request: Request) -> None:
        display_id, bundle = display_id_of(message), bundle_of(message)
        is_result = message.kind == "execute_result"
        if display_id:
            bundle = self._bundles.setdefault(display_id, bundle)
        request.add(Display(bundle, message, display_id, is_result, count_of(message) if is_result else None))
        request.learn_count(message)

    def _clear(self, message: Message, request: Request) -> None:
        request.clear(wait=bool(message.content.get("wait")))

    def _answer_input(self, message: Message) -> None:
        waiting = self._waiting_for_input
        if waiting and waiting.input:
            answered = message.parent.get("msg_id")
            if answered is None or answered == waiting.input.header.get("msg_id"):
                waiting.answer(message)

    def _tell_gap(self, event: dict[str, Any]) -> None:
        count = event.get("messages")
        what = f"{count} messages" if isinstance(count, int) else "Messages"
        for request in self.requests.values():
            if request.state == "running":
                request.say(f"[{what} of this kernel are lost: {event.get('reason') or 'the agent was ended'}]\n")

    # -- comms ---------------------------------------------------------------------------------------------------------

    def _watch_comm(self, message: Message) -> None:
        """Comms are the front end's; only Output widgets matter, which take outputs away from their cell."""
        self.comms += 1
        comm_id, state = message.content.get("comm_id"), _widget_state(message)
        if not isinstance(comm_id, str):
            raise Malformed("a comm without an id")
        if "msg_id" in state:
            msg_id = state["msg_id"]
            self._capturing[comm_id] = msg_id if isinstance(msg_id, str) else ""

    def _is_captured(self, message: Message, request: Request) -> bool:
        """Whether an Output widget takes a message away from its cell."""
        is_captured = message.kind not in _OF_THE_CELL and request.msg_id in self._capturing.values()
        request.captured += is_captured
        return is_captured

    # -- requests ------------------------------------------------------------------------------------------------------

    def _request(self, header: dict[str, Any]) -> Request:
        msg_id = header.get("msg_id")
        if not isinstance(msg_id, str):
            raise Malformed("a header without a msg_id")
        if msg_id not in self.requests:
            self.requests[msg_id] = Request(msg_id, header, head=self._head, tail=self._tail)
        return self.requests[msg_id]

    def _request_of(self, message: Message) -> Request | None:
        """The request that a message answers; one that the record no longer holds is known by its messages."""
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
    "request": Reducer._take_request,
    "shell": Reducer._take_reply,
    "stdin": Reducer._take_stdin,
    "event": Reducer._take_event,
    "iopub": Reducer._take_output,
}

_OF_THE_CELL = frozenset({"status", "execute_input"})

_DISPLAYING = frozenset({"display_data", "update_display_data", "execute_result"})

_OUTPUTS: dict[str, Callable[[Reducer, Message, Request], None]] = {
    "stream": lambda _reducer, message, request: request.print(message),
    "display_data": Reducer._display,
    "execute_result": Reducer._display,
    "error": lambda _reducer, message, request: request.fail(message),
    "clear_output": Reducer._clear,
    "status": lambda _reducer, message, request: request.learn_status(message),
    "execute_input": lambda _reducer, message, request: request.learn_input(message),
}
