"""One page at a kernel's record: it gets what it has not got yet, each message once and in order, as fast as it reads.

Nothing is kept for a page while it is away but a number, because the record is on the worker. Knows WebSockets only as
something to write to.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, ClassVar, Literal, Protocol

from jupyter_tpu.agent.recording.jupyter_messages import json_object
from jupyter_tpu.errors import LinkDown, TpuError
from jupyter_tpu.kernels.messages.loop_bridge import Deliver, KernelMessage, LoopBridge
from jupyter_tpu.kernels.messages.not_run import NOT_RUN, answers, asked_by, not_run
from jupyter_tpu.kernels.messages.notices import event_words, unreadable_event
from jupyter_tpu.server.restore.cursors import Cursor, Cursors
from jupyter_tpu.server.restore.request_listing import list_requests
from jupyter_tpu.server.websocket.acks import Acknowledgements
from jupyter_tpu.server.websocket.messages import KernelHeaders, PageMessage, Unreadable, small_reply
from jupyter_tpu.server.websocket.preamble import opening_messages, status_message, told_state, waiting_question
from jupyter_tpu.server.websocket.rate_limit import RateLimit
from jupyter_tpu.server.websocket.repeats import with_cells_refilled
from jupyter_tpu.server.websocket.too_large import OnTheWay, Refusals

log = logging.getLogger(__name__)

_OPEN_LINKS = ("live", "resuming")
_MOST_WAITING = 10_000
_RETRY_S = 1.0


class Kernel(Protocol):
    """What is needed of a kernel's provisioner."""

    @property
    def link_state(self) -> Any: ...

    async def call(self, method: str, **params: Any) -> dict[str, Any]: ...

    async def follow(self, from_seq: int | Literal["end"], deliver: Deliver) -> LoopBridge: ...


class Socket(Protocol):
    """The page's WebSocket; `drain` waits until it has taken what was written. All raise `PageGone`.

    `write` raises `Unreadable` for a message that a page could not read.

    What is written within `at_once` arrives together as far as that is possible: a page that has read a message has
    then also read the ping behind it, even if it closes there and then.
    """

    def at_once(self) -> AbstractContextManager[None]: ...

    def write(self, message: PageMessage) -> None: ...

    def ping(self, payload: bytes) -> None: ...

    async def drain(self) -> None: ...


class PageGone(Exception):
    """There is nobody to write to any more."""


class PageSession:
    """A page with its session id, from `open` to `close`.

    Args:
        is_here: whether a page with the given session id is open on this kernel.
        refused_words: what stands in the place of a message that is too large for the page.
    """

    _questions: ClassVar[deque[tuple[str, str, int]]] = deque(maxlen=1000)
    """What pages were asked, so that none is asked twice in the place of another."""

    def __init__(
        self,
        kernel: Kernel,
        socket: Socket,
        *,
        kernel_id: str,
        session_id: str,
        cursors: Cursors,
        refusals: Refusals,
        floods: RateLimit,
        make_header: KernelHeaders,
        is_here: Callable[[bytes], bool],
        refused_words: Callable[[PageMessage], str],
    ) -> None:
        self._kernel = kernel
        self._socket = socket
        self._kernel_id = kernel_id
        self._session_id = session_id
        self._cursors = cursors
        self._refusals = refusals
        self._refused_words = refused_words
        self._on_the_way = OnTheWay()
        self._floods = floods
        self._make_header = make_header
        self._is_here = is_here
        self._receipts = Acknowledgements(0)
        self._begun_behind = 0
        self._has_heard = False
        self._has_asked = False
        self._follower: LoopBridge | None = None
        self._asked: list[tuple[str, list[bytes]]] = []
        self._is_told = asyncio.Event()
        self._writing = asyncio.Lock()
        self._renewal: asyncio.Task[None] | None = None
        self._last_parent = b"{}"
        self._is_gone = False

    async def open(self) -> None:
        """Begin where the session left off, or tell a new one how things are and go on from there."""
        cursor = self._cursors.find(self._kernel_id, self._session_id)
        try:
            await self._follow_when_possible(cursor)
        except TpuError as error:
            await self._write([self._words(str(error))])
            self.refuse(error)
        self._is_told.set()
        if cursor and self._follower:
            await self.ask_again()

    def ask(self, channel: str, parts: Sequence[bytes]) -> None:
        """Send a message to the kernel; it waits until this page would see the answer."""
        message = [self._session_id.encode(), *parts]
        if self._follower is None:
            if len(self._asked) < _MOST_WAITING:
                self._asked.append((channel, message))
            return
        if not self._has_asked:  # before it is sent: what answers it must not come before the place that is kept
            self._has_asked = True
            self._keep_place()
        try:
            self._follower.send(channel, message)  # type: ignore[arg-type]
        except TpuError as error:
            with suppress(PageGone):
                self._socket.write(self._words(str(error)))

    def refuse(self, error: TpuError) -> None:
        """Answer the cells that wait for a kernel which nobody starts again."""
        asked, self._asked = self._asked, []
        events = [event for _, message in asked if (event := not_run(message, error))]
        with suppress(PageGone):
            for message in [message for event in events for message in self._not_run(event)]:
                self._socket.write(message)

    @property
    def waits_to_ask(self) -> bool:
        """Whether something that was asked could not be sent yet."""
        return bool(self._asked)

    def take_over(self, other: PageSession) -> None:
        """Ask what the same session has asked on a connection that is closed, and could not send there."""
        self._asked, other._asked = other._asked + self._asked, []

    def tell_status(self, state: str) -> None:
        """Say what has become of the kernel."""
        with suppress(PageGone):
            self._socket.write(status_message(self._make_header, state))

    def arrived(self, payload: bytes) -> None:
        """A pong came in."""
        if not self._is_gone and self._receipts.returned(payload):
            self._has_heard = True
            self._on_the_way.arrived(self._receipts.arrived)
            self._keep_place()

    def end(self, close_code: int | None) -> None:
        """The connection has ended; perhaps at a message that is too large for the page."""
        if largest := self._on_the_way.largest:
            seq, size = largest
            self._refusals.add((self._kernel_id, self._session_id, seq), size, close_code)
        self.leave()

    def leave(self) -> None:
        """Somebody else follows for this session from now on: write nothing more and move no cursor."""
        self._is_gone = True

    async def close(self) -> None:
        """Stop following."""
        self.leave()
        if self._renewal:
            self._renewal.cancel()
        if self._follower:
            await self._follower.close()

    # -- opening -------------------------------------------------------------------------------------------------------

    async def _follow_when_possible(self, cursor: Cursor | None) -> None:
        """Over a link that is cut meanwhile it is tried again, but only for what was asked: that waits for it."""
        while True:
            try:
                return await (self._go_on(cursor) if cursor and cursor.has_heard else self._begin(cursor))
            except LinkDown as error:
                if not self._asked:
                    raise
                log.info("a page of kernel %s is connected later: %s", self._kernel_id, error)
            await asyncio.sleep(_RETRY_S)

    async def _go_on(self, cursor: Cursor) -> None:
        """What the page has not got, and, when its connection was cut, perhaps what it just got."""
        self._receipts, self._has_heard = Acknowledgements(cursor.arrived), True
        self._floods.repeated_until = cursor.written
        await self._follow(cursor.arrived + 1)
        await self._tell_state()

    async def _tell_state(self) -> None:
        """JupyterLab forgets it with the connection; what was missed comes behind it, and ends with the newest."""
        try:
            state = told_state((await self._listing()).execution_state)
        except TpuError as error:
            log.warning("a page of kernel %s cannot be told how it is: %s", self._kernel_id, error)
            return
        await self._write([status_message(self._make_header, state)])

    async def _begin(self, cursor: Cursor | None) -> None:
        """What comes from now on, behind what has been: the page hears it in this order.

        A session that has asked something before, but perhaps heard nothing, begins where it began then: the answers
        come behind that place.
        """
        follower = await self._kernel.follow(cursor.arrived + 1 if cursor else "end", self._deliver)
        if self._kernel.link_state.state not in _OPEN_LINKS:
            await self._write([status_message(self._make_header, "unknown")])
        first_seq = follower.first_seq
        if first_seq is None:  # only the worker knows where the record ends
            await follower.close()
            first_seq = (await self._listing()).next_seq
            follower = await self._kernel.follow(first_seq, self._deliver)
        self._begun_behind = first_seq - 1
        self._receipts = Acknowledgements(first_seq - 1)
        self._floods.repeated_until = cursor.written if cursor else 0
        self._use(follower)
        if not self._is_gone:
            await self._tell(first_seq)

    async def _tell(self, before_seq: int) -> None:
        try:
            listing = await self._listing()
            opening = await opening_messages(self._kernel, listing, self._make_header, before_seq, self._is_asked_here)
        except TpuError as error:
            log.warning("a page of kernel %s cannot be told what runs there: %s", self._kernel_id, error)
            opening = [status_message(self._make_header, "unknown")]
        await self._write([each for message in opening for each in self._unless_refused(message)], before_seq - 1)

    def _is_asked_here(self, session_id: bytes) -> bool:
        """By another page than this one, which is open too."""
        return session_id != self._session_id.encode() and self._is_here(session_id)

    async def _listing(self) -> Any:
        """What the agent knows of the kernel's requests, as soon as the link is there."""
        if self._kernel.link_state.state not in _OPEN_LINKS:
            await self._kernel.call("kernel_info")
        return await list_requests(self._kernel)

    async def _follow(self, from_seq: int) -> None:
        self._use(await self._kernel.follow(from_seq, self._deliver))

    def _use(self, follower: LoopBridge) -> None:
        self._follower = follower
        asked, self._asked = self._asked, []
        for channel, message in asked:
            self.ask(channel, message[1:])

    async def ask_again(self) -> None:
        """Ask this page what the kernel has asked somebody who is not here any more, if it was not asked yet."""
        try:
            question = await waiting_question(self._kernel, await self._listing())
        except TpuError as error:
            log.warning("kernel %s may wait for an answer that nobody is asked for: %s", self._kernel_id, error)
            return
        if question is None or question.seq > self._receipts.written or self._is_here(question.asked):
            return
        if self._place_of(question.message) not in self._questions:
            await self._write([question.message])

    # -- messages ------------------------------------------------------------------------------------------------------

    async def _deliver(self, batch: list[KernelMessage]) -> None:
        """Called by the follower; the next batch comes when the page has taken this one."""
        await self._is_told.wait()
        wanted = [wanted for message in batch for wanted in self._for_this_page(message)]
        if any(message.seq <= self._floods.repeated_until for message in batch):  # the first may be an early one
            refused = self._refusals.smallest(self._kernel_id, self._session_id)
            wanted = await with_cells_refilled(
                self._kernel, wanted, self._floods.repeated_until, self._make_header, refused
            )
        messages = self._floods.feed(wanted, asyncio.get_running_loop().time())
        seqs = [message.seq for message in batch if not message.is_early]
        await self._write(messages, seqs[-1] if seqs else None)
        self._plan_renewal()

    def _for_this_page(self, message: KernelMessage) -> list[PageMessage]:
        event = json_object(message.parts[0]) if message.channel == "event" else {}
        if event.get("event") == NOT_RUN:
            return self._not_run(event)
        found = self._learn(event) if event else self._found(message)
        return self._unless_refused(found) if found else []

    def _unless_refused(self, message: PageMessage) -> list[PageMessage]:
        if self._refusals.has(self._place_of(message), message.size):
            return self._in_its_place(message)
        return [message]

    def _in_its_place(self, refused: PageMessage) -> list[PageMessage]:
        """Words in the cell; and of a reply, for which somebody waits, what is small."""
        log.warning("kernel %s: message %s is too large for a client and left out", self._kernel_id, refused.seq)
        words = self._refused_words(refused)
        content = {"name": "stderr", "text": words + "\n"}
        told = PageMessage.made(self._make_header("stream"), refused.parent_header, content).at(refused.seq)
        return [told] if refused.channel == "iopub" else [told, small_reply(refused, words)]

    def _not_run(self, event: dict[str, Any]) -> list[PageMessage]:
        """The reply goes to who asked, the rest to all."""
        parent_header = json.dumps(event["header"]).encode()
        is_mine = asked_by(event)[:1] == [self._session_id.encode()]
        return [
            PageMessage.made(self._make_header(each.msg_type), parent_header, each.content, channel=each.channel)
            for each in answers(event)
            if each.channel == "iopub" or is_mine
        ]

    def _found(self, message: KernelMessage) -> PageMessage | None:
        if message.channel == "iopub":
            found = PageMessage.from_parts(message.seq, message.channel, message.parts)
            if found:
                if found.parent_id:
                    self._last_parent = found.parent_header
                self._make_header.heard(found.header)
            return _with_told_state(found) if found else None
        return PageMessage.from_parts(message.seq, message.channel, message.parts) if self._is_mine(message) else None

    def _is_mine(self, message: KernelMessage) -> bool:
        """Replies go to who asked. So do questions, unless nobody is there any more to answer."""
        asked = message.parts[0]
        if message.channel == "stdin":
            return asked == self._session_id.encode() or not self._is_here(asked)
        return message.channel in ("shell", "control") and asked == self._session_id.encode()

    def _learn(self, event: dict[str, Any]) -> PageMessage | None:
        if event.get("event") == "new_record":
            self._receipts.begin_anew()
            self._on_the_way.begin_anew()
            self._refusals.begin_anew(self._kernel_id)
            self._begun_behind = self._floods.repeated_until = 0
            self._keep_place()
        if event.get("event") == "started":  # a spare has said so long ago, to nobody
            return status_message(self._make_header, told_state("starting"))
        words = event_words(event)
        return self._words(words) if words else None

    def _words(self, text: str) -> PageMessage:
        """Words of ours, in the cell that the kernel spoke of last: pages show nothing else."""
        content = {"name": "stderr", "text": text + "\n"}
        return PageMessage.made(self._make_header("stream"), self._last_parent, content)

    # -- writing -------------------------------------------------------------------------------------------------------

    async def _write(self, messages: Sequence[PageMessage], seq: int | None = None) -> None:
        """Write and wait until the page's connection has taken it; everything up to `seq` is then done."""
        async with self._writing:
            if self._is_gone:
                return
            ping = None
            if seq is not None:
                ping = self._receipts.write(seq, says_something=bool(messages))
                self._keep_place()
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
            log.warning("kernel %s: message %s is malformed and left out", self._kernel_id, message.seq)
            self._socket.write(self._words(event_words(unreadable_event(message.seq)) or ""))

    def _place_of(self, message: PageMessage) -> tuple[str, str, int]:
        return self._kernel_id, self._session_id, message.seq

    def _keep_place(self) -> None:
        """A session that has neither got nor asked anything stays a new one."""
        if self._has_heard or self._has_asked:
            arrived = self._receipts.arrived if self._has_heard else self._begun_behind
            # an older connection may have written more than this one has until now
            written = max(self._receipts.written, self._floods.repeated_until)
            cursor = Cursor(arrived, written, has_heard=self._has_heard)
            self._cursors.move(self._kernel_id, self._session_id, cursor)

    def _plan_renewal(self) -> None:
        if self._floods.due_s is not None and (self._renewal is None or self._renewal.done()):
            self._renewal = asyncio.create_task(self._renew(self._floods.due_s))

    async def _renew(self, due_s: float) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(due_s - loop.time())
        await self._write(self._floods.renew(loop.time()))


def _with_told_state(message: PageMessage) -> PageMessage:
    if b"starting" not in message.content or message.msg_type != "status":
        return message
    if json_object(message.content).get("execution_state") != "starting":
        return message
    return message.with_content({"execution_state": told_state("starting")})
