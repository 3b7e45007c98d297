"""The link itself: keeps one dialogue with the agent going, and everything that must survive its end."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Literal

from jupyter_tpu import __version__
from jupyter_tpu.errors import (
    AgentBroken,
    BadInput,
    HostKeyChanged,
    NodeNotFound,
    TpuError,
    WorkerUnreachable,
    WrongState,
)
from jupyter_tpu.link.attempts import Attempts
from jupyter_tpu.link.calls import PendingCall, PendingCalls
from jupyter_tpu.link.dialogue import Dialogue
from jupyter_tpu.link.interfaces import Connection, LinkState, OnMessage
from jupyter_tpu.link.opening import SILENCE_S, Demands, Greeting, broken_agent, open_dialogue, prepare_behind
from jupyter_tpu.link.streams import KernelStream
from jupyter_tpu.link.wake import boot_seconds, watch_for_wake
from jupyter_tpu.link.worker import PATIENCE_S, Memory, OnProgress
from jupyter_tpu.wire.entries import Room
from jupyter_tpu.wire.frames import Frame, Kind, ProtocolError, encode_frame
from jupyter_tpu.wire.hello import client_hello
from jupyter_tpu.wire.requests import Outbox

log = logging.getLogger(__name__)

_FINAL = (AgentBroken, BadInput, HostKeyChanged, NodeNotFound, WrongState)
_CANCEL_AGAIN_S = 0.5


def _ignore_progress(progress: Mapping[str, Any]) -> None:
    pass


def _ignore_state(state: LinkState, error: TpuError | None, since: float) -> None:
    pass


class Link:
    """The link to one worker.

    Args:
        connect: opens a connection; called again after every cut. Its `TpuError` says why it could not.
        on_progress: called with ``{"phase", "message", "fraction"}`` while the worker is prepared.
        on_state: called with each new state, the error that caused it, if one did, and since when it is so (Unix
            seconds); again with the same state when only the error is new.
        memory: what is known of the worker's preparation; its own, if None.
        python: the Python that kernels run on; empty for the worker's own choice.
        silence_s: a path on which nothing was heard for so long is taken as dead.
        patience_s: a worker that says nothing for so long while it is prepared is given up.
        clock: seconds that only grow, also while this computer sleeps: so old is a message that waits for the worker.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        *,
        memory: Memory | None = None,
        on_progress: OnProgress = _ignore_progress,
        on_state: Callable[[LinkState, TpuError | None, float], None] = _ignore_state,
        python: str = "",
        silence_s: float = SILENCE_S,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self._connect = connect
        self._on_state = on_state
        self._demands = Demands(on_progress=on_progress, python=python, silence_s=silence_s, patience_s=patience_s)
        self._memory = memory or Memory()
        self._attempts = Attempts(silence_s / 3)
        self._client_id = uuid.uuid4().hex
        self._epoch = 0
        self._state: LinkState = "connecting"
        self._error: TpuError | None = None
        self._since = time.time()
        self._spare: Mapping[str, Any] | None = None
        self._agent: Mapping[str, Any] = {}
        self._connection: Connection | None = None
        self._dialogue: Dialogue | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._errands: set[asyncio.Task[None]] = set()
        self._outbox = Outbox()
        self._room = Room()
        self._clock = clock
        self._streams: dict[int, KernelStream] = {}
        self._calls = PendingCalls()
        self._last_stream = 0

    @property
    def state(self) -> LinkState:
        return self._state

    @property
    def is_up(self) -> bool:
        """Whether the agent is there and answers, be it that old messages are still on their way."""
        return self._state in ("live", "resuming")

    @property
    def since(self) -> float:
        """Since when the link is in its state, in Unix seconds."""
        return self._since

    @property
    def spare(self) -> Mapping[str, Any] | None:
        """``{"kernel_info": …}`` of the kernel that waits on the worker to be used; None when there is none."""
        return self._spare

    @property
    def error(self) -> TpuError | None:
        """Why the link is down or lost."""
        return self._error

    @property
    def agent(self) -> Mapping[str, Any]:
        """What the agent said of itself when the link came up: version, pid, Python of kernels."""
        return self._agent

    async def open(self) -> None:
        """Connect, prepare the worker and greet the agent; from then on the link keeps itself alive.

        Raises:
            WorkerUnreachable, HostKeyChanged, LoginRefused: from `connect`.
            EnvironmentFailed: the worker could not be prepared.
            AgentBroken: the agent does not start, or speaks nonsense.
        """
        self._set_state("connecting", None)
        try:
            dialogue = await self._establish()
        except TpuError as error:
            self._lose(error)
            raise
        except OSError as error:
            self._lose(_as_tpu_error(error))
            raise self._loss() from error
        self._keeper = asyncio.create_task(self._keep(dialogue))

    def begin(self) -> None:
        """Open in the background: what cannot be reached yet is tried again, as after a cut, and calls wait."""
        self._set_state("connecting", None)
        self._keeper = asyncio.create_task(self._keep(None))

    async def close(self) -> None:
        """Leave; kernels go on. Waiting calls fail with `WorkerUnreachable`."""
        if self._keeper is not None:
            await _end(self._keeper)
        self._hang_up()
        if self._errands:
            await asyncio.wait(self._errands)
        if self._state != "lost":
            self._lose(None)

    def hurry(self) -> None:
        """There is reason to doubt what is known of the path: probe it, or try at once to come back."""
        if self._dialogue is not None:
            self._dialogue.probe()
        self._attempts.hurry()

    async def call(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call a method of the agent; over a cut the call waits and is answered once the link is back.

        - ``start_kernel`` {kernel_id, key, signature_scheme?, env?, cwd?, python?, extra_arguments?}: a kernel that
          lives is left as it is, a dead one is started again under the same record
        - ``restart_kernel`` {the same}: ends the old process first and waits until it is gone
        - ``kill_kernel`` {kernel_id, signal?}: SIGKILL unless told, then it returns when the end is recorded
        - ``interrupt`` {kernel_id}: SIGINT to the kernel and its children
        - ``forget_kernel`` {kernel_id}: ends it and removes its record
        - ``kernel_info`` {kernel_id}, ``list_kernels``, ``status``
        - ``activity``: what goes on there and what its guard will do; asking is no activity
        - ``set_brakes`` {rules?, revision?, keep?, keep_revision?, ready_for_s?}: what the guard is to obey
        - ``keep`` {for_s | until | while_busy}: hold the guard off; without any of them, no longer
        - ``metrics`` {history_s?, points?}: what the chips do, ``who``: who holds them
        - ``free`` {pid?, force?, by?}: ends those who hold them; a kernel's record stays

        Raises:
            TpuError: what the agent answered, or `WorkerUnreachable` when the link is lost.
        """
        if self._state == "lost":
            raise self._loss()
        call = self._calls.add(method, self._with_python(method, params or {}))
        self._send(call.frame)
        try:
            return await call.answer
        finally:
            self._calls.remove(call)

    def attach(
        self,
        kernel_id: str,
        *,
        from_seq: int | Literal["end"] = 0,
        on_message: OnMessage,
        on_express: OnMessage | None = None,
    ) -> KernelStream:
        """Deliver the kernel's messages from `from_seq` on, old ones and new ones alike; 0 means all there are.

        With ``"end"`` only what comes from now on is delivered. Replies on the control channel that would wait behind
        much output go to `on_express` ahead of their turn, with a seq above `applied_seq`; in their turn they are
        delivered all the same.

        May follow a ``start_kernel`` that was not answered yet: ``asyncio.create_task(link.call(…))``, one turn of the
        loop, then `attach`.
        """
        self._last_stream += 1
        stream = KernelStream(
            self._last_stream,
            kernel_id,
            from_seq=None if from_seq == "end" else from_seq,
            on_message=on_message,
            on_express=on_express,
            outbox=self._outbox,
            send=self._send,
            forget=self._forget,
            knows=self._agent_knows,
            room=self._room,
            clock=self._clock,
        )
        self._streams[stream.number] = stream
        if from_seq == "end":
            self._find_end(stream)
        elif self._dialogue is not None:
            stream.attach()
        return stream

    def _find_end(self, stream: KernelStream) -> None:
        """Ask where the record ends, by a call that agents of all versions know; what is sent meanwhile waits."""
        if self._state == "lost":
            return
        call = self._calls.add("kernel_info", {"kernel_id": stream.kernel_id})
        call.answer.add_done_callback(partial(self._found_end, stream, call))
        self._send(call.frame)

    def _found_end(self, stream: KernelStream, call: PendingCall, answer: asyncio.Future[dict[str, Any]]) -> None:
        self._calls.remove(call)
        error = answer.exception()
        if stream.is_closed or self._state == "lost":
            return
        if isinstance(error, TpuError):
            stream.refuse(error.to_json())
        else:
            stream.begin(answer.result().get("next_seq"))

    def _agent_knows(self, word: str) -> bool:
        """Whether the agent is new enough for something; False as long as none has answered."""
        known = self._agent.get("knows")
        return isinstance(known, list) and word in known

    def _forget(self, stream: KernelStream) -> None:
        self._streams.pop(stream.number, None)

    # -- coming and going ------------------------------------------------------------------------------------------

    async def _keep(self, dialogue: Dialogue | None) -> None:
        """Run one dialogue after the other until one breaks the protocol or the link is closed."""
        watch = asyncio.create_task(watch_for_wake(self.hurry))
        try:
            while True:
                dialogue = dialogue or await self._come_back()
                await dialogue.run(self._handle, self._after_batch)
                self._dialogue = dialogue = self._spare = None
                self._set_state("down", WorkerUnreachable("The connection to the worker was cut."))
                self._hang_up()
        except ProtocolError as error:
            self._lose(broken_agent(error))
        except TpuError as error:
            self._lose(error)
        except Exception as error:  # whoever waits for the link must learn that it has ended, whatever the fault
            log.exception("the link failed")
            self._lose(AgentBroken("The link to the worker failed.", raw=f"{type(error).__name__}: {error}"))
        finally:
            watch.cancel()
            self._hang_up()

    async def _come_back(self) -> Dialogue:
        self._attempts.begin()
        while True:
            await self._attempts.pause()
            try:
                return await self._establish()
            except _FINAL:
                raise
            except (TpuError, OSError) as error:
                log.info("the worker cannot be reached yet: %s", error)
                self._set_state("down", _as_tpu_error(error))

    async def _establish(self) -> Dialogue:
        async with self._attempts.opening():
            self._connection = await self._connect()
        self._epoch += 1
        greeting = Greeting(hello=client_hello(self._client_id, __version__, self._epoch), follow_up=self._ask_again)
        try:
            opened = await open_dialogue(self._connection, greeting, self._demands, self._memory)
        except BaseException:
            self._hang_up()
            raise
        self._agent = opened.agent
        if not opened.is_prepared:
            self._preparing = self._run_errand(prepare_behind(self._connection, self._demands, self._memory))
        if self._state == "down":
            self._set_state("resuming", None)
        self._settle()
        return opened.dialogue

    def _ask_again(self, dialogue: Dialogue) -> None:
        """Ask for everything that is open. Calls first: one may start the kernel that a stream belongs to."""
        self._dialogue = dialogue
        for frame in self._calls.frames():
            dialogue.send(frame)
        for stream in tuple(self._streams.values()):
            stream.attach()
        for request in self._outbox.pending():
            dialogue.send(encode_frame(Kind.REQUEST, request.stream, request.number, request.payload))
        self._outbox.unsent.clear()

    def _settle(self) -> None:
        """Resuming is over once everything has come that the worker had when it was asked."""
        is_behind = self._state == "resuming" and any(stream.is_behind for stream in self._streams.values())
        if self._state != "live" and not is_behind:
            self._set_state("live", None)

    def _hang_up(self) -> None:
        """Leave the connection. Nobody waits for its end: on a dead path it takes its time."""
        connection, self._connection = self._connection, None
        if self._dialogue is not None:
            self._dialogue.close()
            self._dialogue = None
        if self._preparing is not None:
            self._preparing.cancel()
            self._preparing = None
        if connection is not None:
            self._run_errand(_close(connection))

    def _run_errand(self, errand: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Beside everything else; `close` waits for its end."""
        task = asyncio.create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
        return task

    def _set_state(self, state: LinkState, error: TpuError | None) -> None:
        if state != self._state:
            self._since = time.time()
        self._state, self._error = state, error
        self._on_state(state, error, self._since)

    def _lose(self, error: TpuError | None) -> None:
        self._set_state("lost", error)
        self._calls.fail(self._loss())

    def _loss(self) -> TpuError:
        return self._error or WorkerUnreachable("The link to the worker is closed.")

    # -- frames ----------------------------------------------------------------------------------------------------

    def _send(self, data: bytes) -> bool:
        """Whether there is a connection, be it that it is dead already."""
        if self._dialogue is None:
            return False
        self._dialogue.send(data)
        return True

    def _handle(self, frame: Frame) -> None:
        if frame.kind == Kind.RESULT:
            self._calls.answered(frame)
        elif frame.kind == Kind.REQACK:
            self._outbox.acknowledged(frame.number)
        elif frame.kind == Kind.NOTICE:
            spare = frame.json().get("spare")
            self._spare = spare if isinstance(spare, dict) else None
        elif stream := self._streams.get(frame.stream):
            stream.handle(frame)

    def _after_batch(self) -> None:
        for stream in tuple(self._streams.values()):
            stream.acknowledge()
        self._settle()

    def _with_python(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if method in ("start_kernel", "restart_kernel"):
            return {"python": self._memory.ready.python if self._memory.ready else "", **params}
        return dict(params)


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel until it has ended: what it awaits may swallow a cancellation, as `asyncio.wait_for` did for long."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_CANCEL_AGAIN_S)


async def _close(connection: Connection) -> None:
    with suppress(OSError, TpuError):
        await connection.close()


def _as_tpu_error(error: TpuError | OSError) -> TpuError:
    if isinstance(error, TpuError):
        return error
    return WorkerUnreachable("The worker cannot be reached.", raw=str(error))
