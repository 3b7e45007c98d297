"""The session of one page with a kernel: delivers each message of the record once, in order, at the page's pace.

While a page is disconnected, only its cursor is stored, because the record is on the worker. A session uses its
WebSocket only as a `Socket` for writing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any, ClassVar, Literal, Protocol

from jupyter_tpu.agent.recording.jupyter_messages import json_object
from jupyter_tpu.errors import LinkDown, TpuError
from jupyter_tpu.kernels.messages.event_notices import event_notice, unreadable_event
from jupyter_tpu.kernels.messages.loop_bridge import Deliver, KernelMessage, LoopBridge
from jupyter_tpu.kernels.messages.not_run import (
    NODE_ENDED,
    NOT_RUN,
    answers,
    not_run,
    quiet_answers,
    routing_identities,
)
from jupyter_tpu.server.restore.cursors import Cursor, Cursors
from jupyter_tpu.server.restore.request_listing import list_requests
from jupyter_tpu.server.websocket.acks import Acknowledgements
from jupyter_tpu.server.websocket.page_messages import KernelHeaders, PageMessage, Unreadable, small_reply
from jupyter_tpu.server.websocket.preamble import opening_messages, pending_question, shown_state, status_message
from jupyter_tpu.server.websocket.repeats import with_cells_refilled
from jupyter_tpu.server.websocket.text_limit import TextLimit
from jupyter_tpu.server.websocket.too_large import InFlight, Refusals

log = logging.getLogger(__name__)

_OPEN_LINKS = ("live", "resuming")
_MOST_WAITING = 10_000  # requests that wait for a link; bounds the memory, many more than a notebook has cells
_RETRY_S = 1.0  # delay between attempts over a link that has just broken; the link itself detects when it is back


class Kernel(Protocol):
    """The part of a kernel's provisioner that a session needs."""

    @property
    def link_state(self) -> Any: ...

    async def call(self, method: str, **params: Any) -> dict[str, Any]: ...

    async def follow(self, from_seq: int | Literal["end"], deliver: Deliver) -> LoopBridge: ...


class Socket(Protocol):
    """The page's WebSocket; all methods raise `PageGone` if it is closed.

    `write` raises `Unreadable` for a message that a page could not parse. `drain` waits until the connection has
    accepted all messages. Messages written in `at_once` are sent together if possible, so that a page that has read one
    has also read the ping after it, even if the page closes immediately afterwards.
    """

    def at_once(self) -> AbstractContextManager[None]: ...

    def write(self, message: PageMessage) -> None: ...

    def ping(self, payload: bytes) -> None: ...

    async def drain(self) -> None: ...


class PageGone(Exception):
    """The page's WebSocket is closed."""


class PageSession:
    """One connection of a page to a kernel, from `open` to `close`.

    Args:
        session_id: the id that the page has chosen and uses again when it reconnects.
        text_limit: the `TextLimit` for the text that is sent to the page.
        make_header: a function that creates headers for messages from jupyter_tpu.
        is_here: a function that returns whether a page with the given session id is open on this kernel.
        refusal_notice: a function that returns the notice that replaces a message too large for the page.
    """

    _questions: ClassVar[deque[tuple[str, str, int]]] = deque(maxlen=1000)
    """Kernel, session and seq of the newest input requests that were sent to pages, so that no page gets one twice."""

    def __init__(
        self,
        kernel: Kernel,
        socket: Socket,
        *,
        kernel_id: str,
        session_id: str,
        cursors: Cursors,
        refusals: Refusals,
        text_limit: TextLimit,
        make_header: KernelHeaders,
        is_here: Callable[[bytes], bool],
        refusal_notice: Callable[[PageMessage], str],
    ) -> None:
        self._kernel = kernel
        self._socket = socket
        self._kernel_id = kernel_id
        self._session_id = session_id
        self._cursors = cursors
        self._refusals = refusals
        self._refused_words = refusal_notice
        self._on_the_way = InFlight()
        self._text_limit = text_limit
        self._make_header = make_header
        self._is_here = is_here
        self._acks = Acknowledgements(0)
        # the seq before this session's first message; the session's cursor until its first acknowledgement
        self._started_after = 0
        self._has_heard = False
        self._has_sent = False
        self._follower: LoopBridge | None = None
        self._unsent: list[tuple[str, list[bytes]]] = []
        self._is_opened = asyncio.Event()
        self._writing = asyncio.Lock()
        self._renewal: asyncio.Task[None] | None = None
        self._last_parent = b"{}"
        self._is_gone = False

    async def open(self) -> None:
        """Continue from the session's cursor; a new session gets the kernel's state and all later messages."""
        cursor = self._cursors.find(self._kernel_id, self._session_id)
        try:
            await self._follow_when_possible(cursor)
        except TpuError as error:
            await self._write([self._notice(str(error))])
            self.refuse(error)
        self._is_opened.set()
        if cursor and self._follower:
            await self.resend_question()

    def send_request(self, channel: str, parts: Sequence[bytes]) -> None:
        """Send a request to the kernel as soon as this session follows the record and can receive the reply."""
        message = [self._session_id.encode(), *parts]
        if self._follower is None:
            if len(self._unsent) < _MOST_WAITING:
                self._unsent.append((channel, message))
            return
        if not self._has_sent:
            # store the cursor before sending: if the server is killed, the next session must start before this message
            self._has_sent = True
            self._store_cursor()
        try:
            self._follower.send(channel, message)  # type: ignore[arg-type]
        except TpuError as error:
            with suppress(PageGone):
                self._socket.write(self._notice(str(error)))

    def refuse(self, error: TpuError) -> None:
        """Reply with an error to waiting requests, because their kernel will not start."""
        unsent, self._unsent = self._unsent, []
        events = [event for _, message in unsent if (event := not_run(message, error))]
        with suppress(PageGone):
            for message in [message for event in events for message in self._not_run(event)]:
                self._socket.write(message)

    @property
    def has_unsent_requests(self) -> bool:
        """Return whether requests are waiting to be sent."""
        return bool(self._unsent)

    def take_over(self, other: PageSession) -> None:
        """Take over the unsent requests of an earlier connection of the same page."""
        self._unsent, other._unsent = other._unsent + self._unsent, []

    def send_status(self, state: str) -> None:
        """Send the kernel's state to the page."""
        with suppress(PageGone):
            self._socket.write(status_message(self._make_header, state))

    def arrived(self, payload: bytes) -> None:
        """Process a pong: the page has received all messages that were written before the matching ping."""
        if not self._is_gone and self._acks.confirm(payload):
            self._has_heard = True
            self._on_the_way.arrived(self._acks.arrived)
            self._store_cursor()

    def connection_closed(self, close_code: int | None) -> None:
        """Record that the connection has closed, perhaps because a message is too large for the page.

        Args:
            close_code: the WebSocket's close code, or None.
        """
        if largest := self._on_the_way.largest:
            seq, size = largest
            self._refusals.add((self._kernel_id, self._session_id, seq), size, close_code)
        self.leave()

    def leave(self) -> None:
        """Stop writing and store no cursor, because another connection may serve this session from now on."""
        self._is_gone = True

    async def close(self) -> None:
        """Stop following the record."""
        self.leave()
        if self._renewal:
            self._renewal.cancel()
        if self._follower:
            await self._follower.close()

    # -- start of the session

    async def _follow_when_possible(self, cursor: Cursor | None) -> None:
        """Follow the record; if the link breaks, retry while requests from the page are waiting."""
        while True:
            try:
                return await (self._go_on(cursor) if cursor and cursor.has_received else self._begin(cursor))
            except LinkDown as error:
                if not self._unsent:
                    raise
                log.info("A page of kernel %s is not connected yet: %s", self._kernel_id, error)
            await asyncio.sleep(_RETRY_S)

    async def _go_on(self, cursor: Cursor) -> None:
        """Follow the record from the cursor; messages that the page has not acknowledged are sent again."""
        self._acks, self._has_heard = Acknowledgements(cursor.arrived), True
        self._text_limit.repeated_until = cursor.written
        await self._follow(cursor.arrived + 1)
        await self._send_state()

    async def _send_state(self) -> None:
        """Send the kernel's state before the missed messages, because JupyterLab forgets the state on disconnection."""
        try:
            state = shown_state((await self._listing()).execution_state)
        except TpuError as error:
            log.warning("The state of kernel %s could not be sent to a page: %s", self._kernel_id, error)
            return
        await self._write([status_message(self._make_header, state)])

    async def _begin(self, cursor: Cursor | None) -> None:
        """Send the opening messages, then follow the record from the cursor or, for a new session, from its end.

        The opening messages contain the kernel's state. If the session has sent requests but acknowledged nothing, its
        cursor is still the position at which it started, so that it receives all replies.
        """
        # follow first, so that nothing is missed; `_deliver` waits until the opening messages are written
        follower = await self._kernel.follow(cursor.arrived + 1 if cursor else "end", self._deliver)
        if self._kernel.link_state.state not in _OPEN_LINKS:
            await self._write([status_message(self._make_header, "unknown")])
        first_seq = follower.first_seq
        if first_seq is None:  # this server has not seen the record's end, so query the worker
            await follower.close()
            first_seq = (await self._listing()).next_seq
            follower = await self._kernel.follow(first_seq, self._deliver)
        self._started_after = first_seq - 1
        self._acks = Acknowledgements(first_seq - 1)
        self._text_limit.repeated_until = cursor.written if cursor else 0
        self._has_sent = cursor is not None  # messages were sent over an earlier connection
        self._use(follower)
        if not self._is_gone:
            await self._send_opening(first_seq)

    async def _send_opening(self, before_seq: int) -> None:
        try:
            listing = await self._listing()
            opening = await opening_messages(self._kernel, listing, self._make_header, before_seq, self._is_other_page)
        except TpuError as error:
            log.warning("A page of kernel %s opens without what runs there: %s", self._kernel_id, error)
            opening = [status_message(self._make_header, "unknown")]
        await self._write([each for message in opening for each in self._unless_refused(message)], before_seq - 1)

    def _is_other_page(self, session_id: bytes) -> bool:
        """Return whether another open page has this session id."""
        return session_id != self._session_id.encode() and self._is_here(session_id)

    async def _listing(self) -> Any:
        """List the kernel's requests when the link is up."""
        if self._kernel.link_state.state not in _OPEN_LINKS:
            await self._kernel.call("kernel_info")  # waits for the link, which `list_requests` does not
        return await list_requests(self._kernel)

    async def _follow(self, from_seq: int) -> None:
        self._use(await self._kernel.follow(from_seq, self._deliver))

    def _use(self, follower: LoopBridge) -> None:
        """Store the reader of the kernel's record, and send the requests that were waiting for it."""
        self._follower = follower
        unsent, self._unsent = self._unsent, []
        for channel, message in unsent:
            self.send_request(channel, message[1:])

    async def resend_question(self) -> None:
        """Send this page the pending input request if only a closed page has received it."""
        try:
            question = await pending_question(self._kernel, await self._listing())
        except TpuError as error:
            log.warning("Kernel %s may wait for input that no page asks for: %s", self._kernel_id, error)
            return
        if question is None or question.seq > self._acks.written or self._is_here(question.addressee):
            return
        if self._place_of(question.message) not in self._questions:
            await self._write([question.message])

    # -- messages

    async def _deliver(self, batch: list[KernelMessage]) -> None:
        """Send a batch of the record to the page; the next batch follows when the page has accepted this one."""
        await self._is_opened.wait()
        wanted = [wanted for message in batch for wanted in self._for_this_page(message)]
        # check all messages, not only the first: a message that arrived early over the link may be at the front of the
        # batch
        if any(message.seq <= self._text_limit.repeated_until for message in batch):
            refused = self._refusals.smallest(self._kernel_id, self._session_id)
            wanted = await with_cells_refilled(
                self._kernel,
                wanted,
                self._text_limit.repeated_until,
                self._make_header,
                refused,
                self._unless_left_out,
            )
        messages = self._text_limit.feed(wanted, asyncio.get_running_loop().time())
        seqs = [message.seq for message in batch if not message.is_early]
        await self._write(messages, seqs[-1] if seqs else None)
        self._plan_renewal()

    def _for_this_page(self, message: KernelMessage) -> list[PageMessage]:
        event = json_object(message.parts[0]) if message.channel == "event" else {}
        if event.get("event") in (NOT_RUN, NODE_ENDED):
            return self._not_run(event)
        found = self._from_event(event) if event else self._found(message)
        return self._unless_refused(found) if found else []

    def _unless_refused(self, message: PageMessage) -> list[PageMessage]:
        if self._refusals.has(self._place_of(message), message.size):
            return self._in_its_place(message)
        return [message]

    def _unless_left_out(self, output: PageMessage) -> list[PageMessage]:
        """Return an output from the record, or its replacement if a client has refused it.

        A stream is not replaced, because it contains more than one message. The clear_output before restored outputs is
        not replaced either: it has the seq of the last message, which may be the refused one.
        """
        is_whole = output.msg_type not in ("stream", "clear_output")
        is_left_out = is_whole and self._refusals.has(self._place_of(output), sys.maxsize)
        return self._in_its_place(output) if is_left_out else [output]

    def _in_its_place(self, refused: PageMessage) -> list[PageMessage]:
        """Return the replacement for a message that is too large: a notice, and a small reply if a client needs one."""
        log.warning("Kernel %s: message %s is too large for a client and was left out", self._kernel_id, refused.seq)
        text = self._refused_words(refused)
        content = {"name": "stderr", "text": text + "\n"}
        notice = PageMessage.made(self._make_header("stream"), refused.parent_header, content).at(refused.seq)
        return [notice] if refused.channel == "iopub" else [notice, small_reply(refused, text)]

    def _not_run(self, event: dict[str, Any]) -> list[PageMessage]:
        """Return the messages for a request that no kernel can run: a reply for its page, and outputs for all pages.

        If the node has ended, cells finish without an error, because a page shows above its notebook what happened to
        the node.
        """
        parent_header = json.dumps(event["header"]).encode()
        is_mine = routing_identities(event)[:1] == [self._session_id.encode()]
        return [
            PageMessage.made(self._make_header(each.msg_type), parent_header, each.content, channel=each.channel)
            for each in (quiet_answers() if event["event"] == NODE_ENDED else answers(event))
            if each.channel == "iopub" or is_mine
        ]

    def _found(self, message: KernelMessage) -> PageMessage | None:
        if message.channel == "iopub":
            found = PageMessage.from_parts(message.seq, message.channel, message.parts)
            if found:
                if found.parent_id:
                    self._last_parent = found.parent_header
                self._make_header.store_header(found.header)
            return _with_shown_state(found) if found else None
        return PageMessage.from_parts(message.seq, message.channel, message.parts) if self._is_mine(message) else None

    def _is_mine(self, message: KernelMessage) -> bool:
        """Return whether a reply or input request is for this page.

        An input request is for every page if the page that sent the cell is closed.
        """
        addressee = message.parts[0]  # the ID of the session that sent the request to which this message belongs
        if message.channel == "stdin":
            return addressee == self._session_id.encode() or not self._is_here(addressee)
        return message.channel in ("shell", "control") and addressee == self._session_id.encode()

    def _from_event(self, event: dict[str, Any]) -> PageMessage | None:
        """Process an event of the record; return a message for the page, or None."""
        if event.get("event") == "new_record":  # seqs start at 1 again, so reset everything counted by seq
            self._acks.reset()
            self._on_the_way.reset()
            self._refusals.reset_kernel(self._kernel_id)
            self._started_after = self._text_limit.repeated_until = 0
            self._store_cursor()
        if event.get("event") == "started":  # a pre-warmed process sent its own status before any page was listening
            return status_message(self._make_header, shown_state("starting"))
        if event.get("event") == "waits_for_node":  # JupyterLab doesn't support "unknown", and the kernel may come back
            return status_message(self._make_header, "starting")
        text = event_notice(event)
        return self._notice(text) if text else None

    def _notice(self, text: str) -> PageMessage:
        """Return a jupyter_tpu notice as output of the kernel's last message, because pages show text only in cells."""
        content = {"name": "stderr", "text": text + "\n"}
        return replace(PageMessage.made(self._make_header("stream"), self._last_parent, content), is_notice=True)

    # -- writing to the page

    async def _write(self, messages: Sequence[PageMessage], seq: int | None = None) -> None:
        """Write messages and wait until the connection has accepted them.

        Args:
            seq: after this call, all messages up to this seq in the record are written; None if the messages are not
                from the record.
        """
        async with self._writing:
            if self._is_gone:
                return
            ping = None
            if seq is not None:
                # store the cursor first: after a crash, assume that the page has read the messages
                ping = self._acks.write(seq, has_messages=bool(messages))
                self._store_cursor()
            with suppress(PageGone), self._socket.at_once():
                for message in messages:
                    self._write_one(message)
                    if message.channel == "stdin":
                        self._questions.append(self._place_of(message))
                if ping:
                    self._socket.ping(ping)
            with suppress(PageGone):
                await self._socket.drain()

    def _write_one(self, message: PageMessage) -> None:
        self._on_the_way.write(message.seq, message.size)
        try:
            self._socket.write(message)
        except Unreadable:
            log.warning("Kernel %s: message %s is malformed and was left out", self._kernel_id, message.seq)
            self._socket.write(self._notice(event_notice(unreadable_event(message.seq)) or ""))

    def _place_of(self, message: PageMessage) -> tuple[str, str, int]:
        return self._kernel_id, self._session_id, message.seq

    def _store_cursor(self) -> None:
        """Store the cursor, unless the session is new: it has neither received nor sent a message."""
        if self._has_heard or self._has_sent:
            arrived = self._acks.arrived if self._has_heard else self._started_after
            # an older connection may have written more messages than this connection
            written = max(self._acks.written, self._text_limit.repeated_until)
            cursor = Cursor(arrived, written, has_received=self._has_heard)
            self._cursors.store(self._kernel_id, self._session_id, cursor)

    def _plan_renewal(self) -> None:
        if self._text_limit.due_s is not None and (self._renewal is None or self._renewal.done()):
            self._renewal = asyncio.create_task(self._renew(self._text_limit.due_s))

    async def _renew(self, due_s: float) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(due_s - loop.time())
        await self._write(self._text_limit.renew(loop.time()))


def _with_shown_state(message: PageMessage) -> PageMessage:
    """Replace the state "starting" in a status message with the state from `shown_state`."""
    if b"starting" not in message.content or message.msg_type != "status":  # a fast test that usually avoids parsing
        return message
    if json_object(message.content).get("execution_state") != "starting":
        return message
    return message.with_content({"execution_state": shown_state("starting")})
