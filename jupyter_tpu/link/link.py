"""Connect to an agent: run one dialogue at a time, and keep the state that must not be lost between dialogues."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from jupyter_tpu import __version__
from jupyter_tpu.agent.flow_stream import FlowStream
from jupyter_tpu.errors import (
    AgentBroken,
    BadInput,
    HostKeyChanged,
    NodeNotFound,
    TpuError,
    WorkerUnreachable,
    WrongState,
)
from jupyter_tpu.link.backoff import Attempts
from jupyter_tpu.link.byte_streams import open_byte_stream
from jupyter_tpu.link.dialogue import Dialogue
from jupyter_tpu.link.handshake import (
    SILENCE_S,
    Greeting,
    LinkSettings,
    broken_agent,
    open_dialogue,
    prepare_in_background,
)
from jupyter_tpu.link.interfaces import Connection, LinkState, OnMessage
from jupyter_tpu.link.pending_calls import PendingCall, PendingCalls
from jupyter_tpu.link.preparation import PATIENCE_S, OnProgress, PreparationCache
from jupyter_tpu.link.streams import KernelStream
from jupyter_tpu.link.wake import boot_seconds, watch_for_wake
from jupyter_tpu.wire.entries import Room
from jupyter_tpu.wire.frames import Frame, Kind, ProtocolError, encode_frame
from jupyter_tpu.wire.hello import client_hello
from jupyter_tpu.wire.requests import Outbox

if TYPE_CHECKING:
    from jupyter_tpu.ssh import FileAccess

log = logging.getLogger(__name__)

# Errors that only the user can fix: after these, the link is lost.
_FINAL = (AgentBroken, BadInput, HostKeyChanged, NodeNotFound, WrongState)
# Delay before a task is cancelled again. It is long enough for a task to finish after one cancellation, but short
# enough for a user who waits for `close`.
_CANCEL_AGAIN_S = 0.5


def _ignore_progress(progress: Mapping[str, Any]) -> None:
    pass


def _ignore_state(state: LinkState, error: TpuError | None, since: float) -> None:
    pass


class Link:
    """The link to one worker.

    Args:
        connect: opens a connection; called again after every disconnect. Raises `TpuError` if this fails.
        memory: the cached result of the worker's last preparation; None for an empty cache.
        on_progress: called with ``{"phase", "message", "fraction"}`` while the worker is prepared.
        on_state: called with each new state, the error that caused it or None, and the time of the change (Unix
            seconds); called again with the same state if only the error has changed.
        python: the Python interpreter for kernels; empty to let the worker choose.
        silence_s: time without received data after which the connection counts as dead, in seconds.
        patience_s: time without progress after which the worker's preparation is abandoned, in seconds.
        clock: returns monotonic seconds that include the time when this machine sleeps; measures the age of waiting
            messages.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        *,
        memory: PreparationCache | None = None,
        on_progress: OnProgress = _ignore_progress,
        on_state: Callable[[LinkState, TpuError | None, float], None] = _ignore_state,
        python: str = "",
        silence_s: float = SILENCE_S,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self._connect = connect
        self._on_state = on_state
        self._demands = LinkSettings(on_progress=on_progress, python=python, silence_s=silence_s, patience_s=patience_s)
        self._memory = memory or PreparationCache()
        self._attempts = Attempts(silence_s / 3)
        # Requests are numbered from 1, so each link needs its own ID, even in the same process.
        self._client_id = uuid.uuid4().hex
        self._epoch = 0
        self._state: LinkState = "connecting"
        self._error: TpuError | None = None
        self._since = time.time()
        self._spare: Mapping[str, Any] | None = None
        self._agent: Mapping[str, Any] = {}
        self._connection: Connection | None = None
        self._dialogue: Dialogue | None = None
        self._runner: asyncio.Task[None] | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        # State that is kept when the connection is replaced.
        self._outbox = Outbox()
        self._room = Room()
        self._clock = clock
        self._streams: dict[int, KernelStream] = {}
        self._calls = PendingCalls()
        self._last_stream = 0
        self._byte_streams: set[FlowStream] = set()
        self._changes = asyncio.Event()

    @property
    def state(self) -> LinkState:
        """The link's state."""
        return self._state

    @property
    def is_up(self) -> bool:
        """Whether the agent responds; old messages may still be arriving."""
        return self._state in ("live", "resuming")

    @property
    def spare(self) -> Mapping[str, Any] | None:
        """``{"kernel_info": …}`` of the pre-warmed kernel on the worker, or None if there is no pre-warmed kernel."""
        return self._spare

    @property
    def error(self) -> TpuError | None:
        """Why the link is down or lost; None if the link is connected or was closed by `close`."""
        return self._error

    @property
    def agent(self) -> Mapping[str, Any]:
        """The agent's description of itself from its hello: version, pid and Python for kernels."""
        return self._agent

    async def open(self) -> None:
        """Connect, prepare the worker and greet the agent. Afterwards, the link reconnects after every disconnect.

        Raises:
            WorkerUnreachable, HostKeyChanged, LoginRefused: from `connect`.
            EnvironmentFailed: the worker could not be prepared.
            AgentBroken: the agent does not start or violates the protocol.
        """
        self._set_state("connecting", None)
        try:
            dialogue = await self._establish_first()
        except TpuError as error:  # unlike in `begin`, a failed first attempt is final: the caller is waiting
            self._lose(error)
            raise
        except OSError as error:
            self._lose(_as_tpu_error(error))
            raise self._loss() from error
        self._runner = asyncio.create_task(self._stay_connected(dialogue))

    def begin(self) -> None:
        """Open the link in the background, with the same retries as after a disconnect. Until then, calls wait."""
        self._set_state("connecting", None)
        self._runner = asyncio.create_task(self._stay_connected(None))

    async def close(self) -> None:
        """Disconnect. Kernels keep running. Waiting calls fail with `WorkerUnreachable`."""
        if self._runner is not None:
            await _end(self._runner)
        self._hang_up()
        if self._background:
            await asyncio.wait(self._background)
        if self._state != "lost":  # keep the reason for an earlier loss
            self._lose(None)

    def hurry(self) -> None:
        """Test the connection, or reconnect immediately, because the network may have changed."""
        if self._dialogue is not None:
            self._dialogue.probe()
        self._attempts.hurry()

    async def call(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call a method of the agent. While disconnected, the call waits; it completes after the link has reconnected.

        - ``start_kernel`` {kernel_id, key, signature_scheme?, env?, cwd?, python?, extra_arguments?}: a running kernel
          is left unchanged; a dead kernel is started again with the same record
        - ``restart_kernel`` {same parameters}: kills the old process first and waits until it is gone
        - ``kill_kernel`` {kernel_id, signal?}: sends SIGKILL by default, then returns once the exit is recorded
        - ``interrupt`` {kernel_id}: SIGINT to the kernel and its children
        - ``forget_kernel`` {kernel_id}: kills the kernel and removes its record
        - ``kernel_info`` {kernel_id}, ``list_kernels``, ``status``
        - ``activity``: activity on the node and the next auto-stop; the call itself is not activity
        - ``set_rules`` {rules?, revision?, keep?, keep_revision?, ready_for_s?}: the auto-stop rules of the node
        - ``keep`` {for_s | until | while_busy}: keeps the node running; without parameters, cancels an earlier ``keep``
        - ``start_terminal`` {terminal_id, rows?, columns?}: an existing terminal is left unchanged
        - ``list_terminals``: those whose shell is running; ``end_terminal`` {terminal_id}: ends its shell
        - ``metrics`` {history_s?, points?}: chip metrics; ``who``: the processes that use the chips
        - ``free`` {pid?, force?, by?}: kills the processes that use the chips; a kernel's record is kept

        Raises:
            TpuError: the agent returned an error, or the link is lost (`WorkerUnreachable`).
        """
        if self._state == "lost":
            raise self._loss()
        call = self._calls.add(method, self._with_python(method, params or {}))
        self._send(call.frame)
        try:
            return await call.answer
        finally:
            self._calls.remove(call)

    async def wait_up(self) -> None:
        """Wait until the agent responds.

        Raises:
            TpuError: the link is lost.
        """
        while not self.is_up:
            if self._state == "lost":
                raise self._loss()
            self._changes.clear()
            await self._changes.wait()

    async def open_stream(self, target: Mapping[str, Any]) -> FlowStream:
        """Open a stream of bytes to the program that serves a folder, or to a port of the worker.

        The stream uses the link's SSH connection and ends with it; it is not resumed. Open another one after `wait_up`.

        Args:
            target: ``{"files": folder}``, where a relative folder is below the user's home on the worker, or
                ``{"port": n}``; a port is only ever connected to on 127.0.0.1 or ::1.

        Raises:
            WrongState: the worker's agent is too old for streams.
            BadInput: nothing can be opened there: no program listens on the port, or another user's program does.
            WorkerUnreachable: the link is down, or the connection was lost.
            AgentBroken: the program on the worker ended at once, or violates the protocol.
        """
        connection, ready = self._connection, self._memory.ready
        if not self.is_up or connection is None or ready is None:
            raise self._loss()
        if not self._agent_knows("open"):
            raise WrongState(
                "The agent on the worker is too old for files and ports.",
                exists="Kernels there keep running.",
                hint="Stop the node and start it again to update the agent.",
            )
        stream = await open_byte_stream(connection, ready.socket, target)
        if self._connection is not connection:  # it was lost meanwhile
            stream.close()
            raise WorkerUnreachable("The connection to the worker was lost.")
        self._byte_streams.add(stream)
        self._run_in_background(self._forget_byte_stream(stream))
        return stream

    async def _forget_byte_stream(self, stream: FlowStream) -> None:
        await stream.wait_closed()
        self._byte_streams.discard(stream)

    async def open_files(self) -> FileAccess:
        """Open an SFTP session over the current connection. It ends with this connection.

        Raises:
            WorkerUnreachable: the link is not connected, or the worker offers no SFTP.
        """
        if self._connection is None:
            raise self._loss()
        return await self._connection.open_files()

    def attach(
        self,
        kernel_id: str,
        *,
        from_seq: int | Literal["end"] = 0,
        on_message: OnMessage,
        on_express: OnMessage | None = None,
        is_terminal: bool = False,
    ) -> KernelStream:
        """Deliver the kernel's recorded and new messages, starting at `from_seq`. 0 delivers all messages.

        With ``"end"``, only new messages are delivered. If a reply on the control channel would have to wait for a lot
        of output, `on_express` gets the reply early, with a sequence number above `applied_seq`. Later, `on_message`
        gets the same reply in order.

        If `is_terminal` is True, `kernel_id` is the id of a terminal, and `from_seq` a number. Its output arrives in
        messages of the channel ``terminal``. Send input on the channel ``stdin``, and sizes on ``control``.

        To save a round trip, you can call this before ``start_kernel`` returns: ``asyncio.create_task(link.call(…))``,
        one iteration of the event loop, then `attach`.
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
            is_terminal=is_terminal,
        )
        # Register before sending anything: data may arrive in the same read as the response that announces it.
        self._streams[stream.number] = stream
        if from_seq == "end":
            self._find_end(stream)
        elif self._dialogue is not None:
            stream.attach()
        return stream

    def _find_end(self, stream: KernelStream) -> None:
        """Query the end of the record with a call that all agent versions support. Requests wait for the result."""
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

    def _agent_knows(self, parameter: str) -> bool:
        """Return whether the agent supports a parameter in `AGENT_KNOWS`. False until the first hello arrives."""
        known = self._agent.get("knows")
        return isinstance(known, list) and parameter in known

    def _forget(self, stream: KernelStream) -> None:
        self._streams.pop(stream.number, None)

    # -- connecting and reconnecting

    async def _stay_connected(self, dialogue: Dialogue | None) -> None:
        """Run successive dialogues until a dialogue violates the protocol or the link is closed."""
        watch = asyncio.create_task(watch_for_wake(self.hurry))
        try:
            while True:
                dialogue = dialogue or await self._reconnect()
                await dialogue.run(self._handle, self._after_batch)
                self._dialogue = dialogue = self._spare = None
                self._set_state("down", WorkerUnreachable("The connection to the worker was lost."))
                self._hang_up()
        except ProtocolError as error:
            self._lose(broken_agent(error))
        except TpuError as error:
            self._lose(error)
        except Exception as error:  # waiting callers must get an error even if our own code has a bug
            log.exception("the link failed")
            self._lose(AgentBroken("The connection to the worker failed.", raw=f"{type(error).__name__}: {error}"))
        finally:
            watch.cancel()
            self._hang_up()

    async def _reconnect(self) -> Dialogue:
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

    async def _establish_first(self) -> Dialogue:
        """Connect; if the connection breaks before the agent has been greeted, connect once more.

        The second attempt succeeds after a short interruption. If the node was deleted, it fails with that reason.
        """
        epoch = self._epoch
        try:
            return await self._establish()
        except WorkerUnreachable as error:
            if self._epoch == epoch:  # there was no connection
                raise
            log.info("the first connection broke: %s", error)
            return await self._establish()

    async def _establish(self) -> Dialogue:
        async with self._attempts.opening():
            self._connection = await self._connect()
        # The worker may not have noticed yet that the last connection was lost. A higher epoch makes the agent close
        # it.
        self._epoch += 1
        greeting = Greeting(hello=client_hello(self._client_id, __version__, self._epoch), follow_up=self._resend)
        try:
            opened = await open_dialogue(self._connection, greeting, self._demands, self._memory)
        except BaseException:  # even a cancellation must not leave a connection open
            self._hang_up()
            raise
        self._agent = opened.agent
        # Prepare after the greeting, so that the user doesn't wait for it.
        if not opened.is_prepared:
            self._preparing = self._run_in_background(
                prepare_in_background(self._connection, self._demands, self._memory)
            )
        # The first connection has missed nothing, so it is "live" at once.
        if self._state == "down":
            self._set_state("resuming", None)
        self._update_live()
        return opened.dialogue

    def _resend(self, dialogue: Dialogue) -> None:
        """Resend the unanswered calls, then the unanswered requests, which may need a kernel that a call starts."""
        self._dialogue = dialogue
        for frame in self._calls.frames():
            dialogue.send(frame)
        for stream in tuple(self._streams.values()):
            stream.attach()
        for request in self._outbox.pending():
            dialogue.send(encode_frame(Kind.REQUEST, request.stream, request.number, request.payload))
        self._outbox.unsent.clear()

    def _update_live(self) -> None:
        """Set the state to live once all messages that the worker had before the reconnect have arrived."""
        is_behind = self._state == "resuming" and any(stream.is_behind for stream in self._streams.values())
        if self._state != "live" and not is_behind:
            self._set_state("live", None)

    def _hang_up(self) -> None:
        """Close the connection in the background, because this takes seconds if the network is down."""
        connection, self._connection = self._connection, None
        for stream in tuple(self._byte_streams):
            stream.fail(WorkerUnreachable("The connection to the worker was lost."))
        if self._dialogue is not None:
            self._dialogue.close()
            self._dialogue = None
        if self._preparing is not None:
            self._preparing.cancel()
            self._preparing = None
        if connection is not None:
            self._run_in_background(_close(connection))

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task in the background; `close` waits for it."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def _set_state(self, state: LinkState, error: TpuError | None) -> None:
        if state != self._state:
            self._since = time.time()
        self._state, self._error = state, error
        self._changes.set()
        self._on_state(state, error, self._since)

    def _lose(self, error: TpuError | None) -> None:
        self._set_state("lost", error)
        self._calls.fail(self._loss())

    def _loss(self) -> TpuError:
        return self._error or WorkerUnreachable("The connection to the worker is closed.")

    # -- frames

    def _send(self, data: bytes) -> bool:
        """Write to the connection, which may be dead. Return False if there is no connection."""
        if self._dialogue is None:
            return False
        self._dialogue.send(data)
        return True

    def _handle(self, frame: Frame) -> None:
        if frame.kind == Kind.RESULT:
            self._calls.answered(frame)
        elif frame.kind == Kind.REQACK:
            self._outbox.acknowledged(frame.number)
        elif frame.kind == Kind.NOTICE:  # the worker reports whether a pre-warmed kernel is ready
            spare = frame.json().get("spare")
            self._spare = spare if isinstance(spare, dict) else None
        elif stream := self._streams.get(frame.stream):
            stream.handle(frame)

    def _after_batch(self) -> None:
        for stream in tuple(self._streams.values()):
            stream.acknowledge()
        self._update_live()

    def _with_python(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if method in ("start_kernel", "restart_kernel"):
            return {"python": self._memory.ready.python if self._memory.ready else "", **params}
        return dict(params)


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task repeatedly until it finishes. Before Python 3.12, `asyncio.wait_for` may ignore a cancellation."""
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
