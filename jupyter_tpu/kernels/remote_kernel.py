"""Manage one kernel on a worker from this machine: start, restart, shut down, and detect its death.

A kernel counts as dead only if the agent or the cloud reports this. A disconnected link doesn't mean that the kernel is
dead. A `RemoteKernel` runs in the event loop of its link. Any thread may read the field `exit_code`, so checking
whether the kernel is alive needs no network access.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from jupyter_tpu.agent.recording.jupyter_messages import (
    asks_to_interrupt,
    asks_to_restart,
    date_of,
    json_object,
)
from jupyter_tpu.error_actions import START_NODE
from jupyter_tpu.errors import (
    LONGEST_TEXT,
    NEEDS_REPAIR,
    EnvironmentFailed,
    KernelFailed,
    NodeEnded,
    NodeNotFound,
    Text,
    TpuError,
    WorkerUnreachable,
    WrongState,
    error_from_json,
    harmless,
)
from jupyter_tpu.kernels.launch import Launch
from jupyter_tpu.kernels.messages.fanout import RecordFanout, Seq
from jupyter_tpu.kernels.messages.loop_socket import Parts
from jupyter_tpu.kernels.messages.not_run import NODE_ENDED, OpenRequests, not_run
from jupyter_tpu.kernels.registry.exit_status import exit_code_of, exit_text, stderr_of
from jupyter_tpu.link import KernelStream, Link, OnMessage
from jupyter_tpu.node_end import NodeEnd

log = logging.getLogger(__name__)

Report = Callable[[Mapping[str, Any]], None]

FIRST_SIGN_S = 30
"""How long to wait for a new kernel's first message, in seconds: half as long as nbclient and Jupyter Server wait."""
ANSWER_S = 5
"""Time limit for the agent's response to an interrupt, a signal or a shutdown, in seconds."""
ANSWER_WHILE_CUT_S = 1
"""The same limit while the link is disconnected: enough for a link that reconnects soon."""
START_S = 60
"""Time limit for the agent's response to a start, in seconds. A busy worker needs a long time to start Python."""
START_WHILE_CUT_S = 15
"""The same limit while the link is disconnected, because a user is waiting for the kernel."""

LOST = -signal.SIGKILL
"""The exit code of a kernel whose exit code is unknown."""

_HEAD_PARTS = 8
"""Number of a message's first parts that always include its identities, delimiter, signature and header."""
_READY = {"phase": "ready", "message": "The kernel is running", "fraction": 1.0}
_MAY_RUN_ON = (
    "kernel %s may keep running and using the TPU until the node is stopped or its process is killed there: %s"
)
_WAITS = (
    "The worker is not responding. The kernel will be shut down as soon as the worker responds, if "
    "this program is still running."
)


class RemoteKernel:
    """A kernel that runs under the agent on the other side of `link`. Its messages go to `fanout`.

    Args:
        report: called with ``{"phase", "message", "fraction", "error_code"}`` when the kernel is ready or has died.
        owner: identifies this process to the agent, so that a late request to shut down an older kernel with the same
            id has no effect.
        generation: how many starts of the kernel are known.

    Attributes:
        exit_code: as in `subprocess.Popen.returncode`: None while the kernel is running, negative if a signal killed
            it.
        reason: why the kernel is gone, for display.
        is_asked_to_end: whether the user requested the shutdown. If not, an exit is reported as a death.
        is_gone: whether the kernel no longer exists, because its node doesn't exist or another client has shut it down.
        generation: how many starts of the kernel are known.
        refused_restart: when the worker last rejected a restart (monotonic seconds), and why.
        expected_info: the expected reply to a kernel_info_request, if known before the kernel's first message.
    """

    def __init__(
        self, link: Link, fanout: RecordFanout, report: Report, *, owner: str = "", generation: int = 0
    ) -> None:
        self.exit_code: int | None = None
        self.reason = ""
        self.is_asked_to_end = False
        self.is_gone = False
        self._node_end: NodeEnd | None = None
        self.refused_restart: tuple[float, TpuError] | None = None
        self._link = link
        self._fanout = fanout
        self._report = report
        self._owner = owner
        self._kernel_id = ""
        self.generation = generation
        self.expected_info: Mapping[str, Any] | None = None
        # Generations count the processes. Ignore events from a generation before the last requested start.
        self._asked_generation = generation + 1
        self._seen_generation = 0
        self._abort_until: int | None = None  # the last request of the old process; see `KernelStream.abort_pending`
        self._launched_at = datetime.min.replace(tzinfo=UTC)
        self._starting: asyncio.Task[None] | None = None
        self._asked_ahead: list[Sequence[bytes]] = []  # cells sent before the start succeeded, to reject if it fails
        self._open = OpenRequests()
        self._held_cells: list[tuple[Any, Sequence[bytes]]] | None = None
        self._is_up = False
        self._first_sign = asyncio.Event()
        self._ended = asyncio.Event()

    async def start(self, launch: Launch, begin: Callable[[Launch], Awaitable[None]] | None = None) -> None:
        """Start the kernel and start reading its messages. The caller must then call `wait_until_up`.

        Args:
            begin: starts what the kernel depends on, such as the engines on the other workers of a slice. If the kernel
                replaces an old kernel, `begin` is called after the old kernel is removed.

        Raises:
            KernelFailed: the kernel cannot be started.
            WorkerUnreachable: the link was lost during the start.
        """
        if launch.replaces:
            await self._remove_old(launch.kernel_id)
        if begin:
            await begin(launch)
        await self._launch("start_kernel", launch)

    async def restart(self, launch: Launch) -> None:
        """Kill the process if it is still running, and start a new process with the same record.

        Clients stay connected.
        """
        await self._launch("restart_kernel", launch)

    def attach(self, kernel_id: str) -> None:
        """Attach to a kernel that another process started, and start reading its messages."""
        self._kernel_id = kernel_id
        self._is_up = True
        self._first_sign.set()
        self._fanout.begin_at_end()
        self._fanout.connect(self._attach, self._receive)

    async def learn_state(self) -> Mapping[str, Any]:
        """Wait for the link and return the agent's ``kernel_info``, or an empty mapping if the kernel is gone."""
        try:
            info = await self.call("kernel_info", {})
        except TpuError as error:
            self.lose(str(error), is_gone=isinstance(error, (KernelFailed, NodeNotFound, WrongState)))
            return {}
        self.generation = max(self.generation, int(info["generation"]))
        # The kernel exited while no server was running. After a requested shutdown, there is nothing to reconnect to.
        if not info["alive"] and self.exit_code is None:
            ended = info.get("exit") or {}
            self.is_gone = bool(ended.get("asked"))
            self._die(exit_code_of(ended), stderr_of(ended), phase=_phase_of(ended))
        return info

    async def wait_until_up(self) -> None:
        """Wait for the kernel's first message, unless its start runs in the background.

        Raises:
            KernelFailed: the kernel died during the start.
            NodeEnded: the node was stopped or deleted during the start.
        """
        if self._starting:
            return
        try:
            async with asyncio.timeout(FIRST_SIGN_S):
                await self._first_sign.wait()
        except TimeoutError:
            # This is not an error: the process is running and may be importing many packages. Its clients have their
            # own time limits.
            log.warning("kernel %s has sent no message for %s s", self._kernel_id, FIRST_SIGN_S)
        if self._node_end:
            raise NodeEnded(self._node_end.message, exists="Nothing was started.", hint=_way_back(self._node_end))
        if self.exit_code is not None:
            raise KernelFailed(
                Text("The kernel died during startup ({exit}).", exit=exit_text(self.exit_code)),
                exists="The node keeps running and is billed.",
                hint=self.reason or "Check the Python environment on the worker.",
                raw=self.reason,
            )
        self._is_up = True
        self._report(_READY)

    @property
    def has_died(self) -> bool:
        """Whether the kernel exited although nobody requested its shutdown."""
        return self.exit_code is not None and not self.is_asked_to_end

    def expect_end(self) -> None:
        """Record that the user wants to shut down the kernel, so that its exit is not reported as a death."""
        self.is_asked_to_end = True

    async def interrupt(self) -> None:
        """Interrupt the running cell."""
        await self._call_briefly("interrupt")

    async def send_signal(self, number: int) -> None:
        """Send a signal to the kernel's process. Do nothing if the kernel has exited."""
        if self.exit_code is None:
            await self._call_briefly("kill_kernel", signal=int(number))

    async def kill(self) -> None:
        """Kill the process. If the worker does not respond, log this and treat the kernel as exited."""
        if self.exit_code is not None:
            return
        self.expect_end()
        try:
            await self._call_briefly("kill_kernel", signal=int(signal.SIGKILL))
        except TpuError as error:
            log.warning("kernel %s could not be ended and may still be running: %s", self._kernel_id, error)
            self.lose(str(error))

    async def terminate(self) -> None:
        """Send SIGTERM to the process. A failure is only logged, because `kill` follows."""
        self.expect_end()
        try:
            await self.send_signal(signal.SIGTERM)
        except TpuError as error:
            log.warning("SIGTERM could not be sent to kernel %s: %s", self._kernel_id, error)

    async def wait(self) -> int:
        """Wait until the kernel exits, and return the exit code."""
        await self._ended.wait()
        assert self.exit_code is not None
        return self.exit_code

    async def forget(self) -> None:
        """Shut down the kernel and remove its record. If the link is disconnected, log this and wait.

        Only the first call has an effect.
        """
        kernel_id, self._kernel_id = self._kernel_id, ""
        if not kernel_id:
            return
        self._stop_starting()
        # While the link is disconnected, the shutdown may take hours, and the kernel keeps using the TPU. So log a
        # delay soon.
        waiting = asyncio.get_running_loop().call_later(self._patience_s, log.warning, _MAY_RUN_ON, kernel_id, _WAITS)
        try:
            await self._link.call("forget_kernel", {"kernel_id": kernel_id, "owner": self._owner})
        except (KernelFailed, NodeNotFound, WrongState) as error:
            log.info("nothing is left of kernel %s: %s", kernel_id, error)
        except TpuError as error:
            log.warning(_MAY_RUN_ON, kernel_id, error)
        finally:
            waiting.cancel()

    def lose(self, reason: str, *, is_gone: bool = False) -> None:
        """Treat the kernel as dead, because it is gone or permanently unreachable.

        Args:
            is_gone: whether the kernel no longer exists.
        """
        self.is_gone = self.is_gone or is_gone
        if self.exit_code is None:
            self._die(LOST, reason)

    def end_with_node(self, end: NodeEnd) -> None:
        """Mark the kernel as dead because its node was stopped or deleted, and reply to all unanswered cells."""
        self.is_gone, self._node_end = True, end
        if self.exit_code is None:
            self._die(LOST, end.message, phase=NODE_ENDED)
        if stream := self._fanout.stream:
            stream.withdraw_unsent_cells()
        self._asked_ahead = []  # these cells are also open requests and must get only one reply
        error = NodeEnded(end.message, exists="Variables are lost; outputs are kept.", hint=_way_back(end))
        for event in self._open.end(error):
            self._fanout.publish_event(**event)

    async def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Call a method of the agent for this kernel. The call waits while the link is disconnected.

        Raises:
            TpuError: the agent returned an error, or the link is lost (`WorkerUnreachable`).
        """
        return await self._link.call(method, {**params, "kernel_id": self._kernel_id})

    def send(self, channel: Any, parts: Sequence[bytes]) -> None:
        """Send a client's request. Discard a control request for a dead kernel; it must not reach the next kernel.

        Raises:
            BadInput: the message exceeds the link's size limit.
            TpuError: the request is a cell, and there is no kernel to run it or the kernel is unreachable.
        """
        # Reject only cells with an error; front ends' other requests (completion, comms) don't need a reply.
        if self.is_gone and _asks_to_run(channel, parts):
            raise WrongState(
                "A cell was not run, because its kernel no longer exists.",
                exists=self.reason,
                hint="Run the cell when the kernel has started.",
            )
        if (refusal := self.refusal) and _asks_to_run(channel, parts):
            raise refusal
        stream = self._fanout.stream
        if (stream is None or stream.is_closed) and _asks_to_run(channel, parts):
            raise KernelFailed("The kernel is not running.", exists=self.reason, hint="Restart the kernel.")
        if self._held_cells is not None and _asks_to_run(channel, parts):
            self._held_cells.append((channel, parts))
        elif stream and not (channel == "control" and self.exit_code is not None):
            stream.send(channel, parts)
            if channel == "shell":
                self._open.add(parts)
            if self._is_starting and _asks_to_run(channel, parts):
                self._asked_ahead.append(parts)

    def is_late(self, parts: Sequence[bytes]) -> bool:
        """Return whether an interrupt_request or shutdown_request was sent before the current process was launched.

        Jupyter sends these requests before it restarts a kernel, and does not wait until a dead process has read them.
        If such a request is still in a local socket when the new process is launched, it would interrupt or shut down
        the new process.

        Args:
            parts: a control request from a program on this machine, dated by the same clock as the launches.
        """
        sent_at = date_of(parts) if asks_to_interrupt(parts) or asks_to_restart(parts) else None
        return sent_at is not None and sent_at < self._launched_at

    def hold_cells(self) -> None:
        """Start queueing cells for the next process, because the user has requested a restart.

        The old process would accept a cell and never reply to it.
        """
        if self._held_cells is None:
            self._held_cells = []

    def release_cells(self) -> None:
        """Send the queued cells to the next process, or to the old process if the restart was rejected."""
        held, self._held_cells = self._held_cells or [], None
        for channel, parts in held:
            try:
                self.send(channel, parts)
            except TpuError as error:
                self._refuse([parts], error)

    def close(self) -> None:
        """Detach from the kernel, which keeps running."""
        self._stop_starting()
        self._fanout.disconnect()

    async def _launch(self, method: str, launch: Launch) -> None:
        self._stop_starting()
        self._kernel_id = launch.kernel_id
        self._asked_generation = self.generation + 1
        self._is_up = self.is_asked_to_end = False
        self._open.clear()  # a terminated process sends no more replies
        self._revive()
        self._launched_at = datetime.now(UTC)
        self._abort_until = None
        # Requests that have not reached the old process must not run in the new one, least of all the shutdown_request.
        if method == "restart_kernel" and self._fanout.stream:
            self._abort_until = self._fanout.stream.abort_pending()
        if self._can_start_in_background(method, launch):
            await self._start_in_background(method, launch)
        else:
            await self._start_and_wait(method, launch)
        if self._fanout.stream is None:
            self._fanout.connect(self._attach, self._receive)

    def _can_start_in_background(self, method: str, launch: Launch) -> bool:
        """Return whether the start can run in the background.

        This is possible with a pre-warmed kernel, which saves a round trip, or for a restart while the link is
        disconnected, so that the user doesn't have to wait for the link.
        """
        if not self._link.is_up:
            return method == "restart_kernel"
        spare = self._link.spare
        return spare is not None and not (launch.extra_arguments or launch.replaces or launch.python)

    async def _start_in_background(self, method: str, launch: Launch) -> None:
        self.expected_info = (self._link.spare or {}).get("kernel_info")
        self._is_up = True
        self._asked_ahead = []
        self._starting = asyncio.create_task(self._finish_start(method, launch))
        await asyncio.sleep(0)  # send the call before the attach and the requests that follow

    async def _finish_start(self, method: str, launch: Launch) -> None:
        """Complete a start in the background.

        If the start fails, report that the kernel has died, unless its old process is still running.
        """
        try:
            self._has_started(await self._link.call(method, self._params(launch)))
            if self._fanout.stream is None:  # the record was lost, and the kernel has started a new one
                self._fanout.connect(self._attach, self._receive)
            await self._first_sign.wait()
        except TpuError as error:
            is_refusal = method == "restart_kernel" and isinstance(error, (EnvironmentFailed, KernelFailed))
            if not (is_refusal and await self._old_process_runs()):
                self._die(LOST, str(error))
                self._refuse(self._asked_ahead, error)
            self._fanout.publish_event("words", message=str(error))
        self._asked_ahead = []
        if self.exit_code is None:
            self._report(_READY)

    async def _old_process_runs(self) -> bool:
        """Return whether the old process still runs; the agent may have rejected the restart before killing it."""
        try:
            is_alive = bool((await self.call("kernel_info", {}))["alive"])
        except TpuError:
            return False
        if is_alive:
            self._asked_generation = self.generation
            self._first_sign.set()
        return is_alive

    @property
    def _is_starting(self) -> bool:
        """Whether a start in the background is in progress."""
        return self._starting is not None and not self._starting.done()

    @property
    def refusal(self) -> TpuError | None:
        """The reason why the worker is unreachable until the user fixes a problem, or None if there is none."""
        error = None if self._link.is_up else self._link.error
        return error if isinstance(error, NEEDS_REPAIR) else None

    def refuse_waiting(self, error: TpuError) -> None:
        """Send error replies for cells that wait for a link that won't reconnect soon."""
        if stream := self._fanout.stream:
            cells = stream.withdraw_unsent_cells()
            self._asked_ahead = [parts for parts in self._asked_ahead if parts not in cells]
            self._refuse(cells, error)

    def _refuse(self, requests: Sequence[Sequence[bytes]], error: TpuError) -> None:
        """Send error replies for the cells among these requests, because the kernel won't receive them."""
        self._open.remove(requests)
        for parts in requests:
            if event := not_run(parts, error):
                self._fanout.publish_event(**event)

    async def _start_and_wait(self, method: str, launch: Launch) -> None:
        self.expected_info = None
        try:
            self._has_started(await self._call_to_start(method, launch))
        except TpuError as error:
            self.lose(str(error))
            raise

    def _has_started(self, answer: Mapping[str, Any]) -> None:
        self._advance(int(answer["generation"]))
        if answer.get("execution_state") in ("idle", "busy"):  # a pre-warmed kernel sent its first message long ago
            self._first_sign.set()

    def _params(self, launch: Launch) -> dict[str, Any]:
        params = {**launch.to_params(), "owner": self._owner}
        return params if self._abort_until is None else {**params, "abort_until": self._abort_until}

    def _stop_starting(self) -> None:
        if self._starting:
            self._starting.cancel()
            self._starting = None

    def _attach(self, from_seq: Seq, on_message: OnMessage, on_express: OnMessage) -> KernelStream:
        return self._link.attach(self._kernel_id, from_seq=from_seq, on_message=on_message, on_express=on_express)

    async def _remove_old(self, kernel_id: str) -> None:
        self._kernel_id = kernel_id
        with suppress(KernelFailed):  # the kernel does not exist
            await self._call_briefly("forget_kernel")

    async def _call_to_start(self, method: str, launch: Launch) -> dict[str, Any]:
        """Make a call that starts the kernel. Don't wait long for the link, because the user is waiting."""
        try:
            async with asyncio.timeout(START_S if self._link.is_up else START_WHILE_CUT_S):
                return await self._link.call(method, self._params(launch))
        except TimeoutError:
            raise self._link.error or WorkerUnreachable(
                "The worker did not respond.",
                exists="The node may still be running and billed.",
                hint="Try again when the node is connected, or check the node in the TPU panel.",
            ) from None

    @property
    def _patience_s(self) -> float:
        return ANSWER_S if self._link.is_up else ANSWER_WHILE_CUT_S

    async def _call_briefly(self, method: str, **params: Any) -> None:
        patience_s = self._patience_s
        try:
            async with asyncio.timeout(patience_s):
                await self._link.call(method, {"kernel_id": self._kernel_id, **params})
        except TimeoutError as error:
            raise WorkerUnreachable(
                Text("The worker did not respond within {seconds} s.", seconds=patience_s),
                hint="Try again when the node is connected.",
            ) from error

    def _receive(self, _seq: int, channel: str, parts: Parts) -> None:
        if channel == "event":
            self._learn(json_object(parts[0]))
            return
        if channel == "shell":
            self._open.answered(parts)
        # During a restart, messages of the old process still arrive; don't attribute them to the new one.
        is_new_process = self._seen_generation >= max(self.generation, self._asked_generation)
        if is_new_process and not self._first_sign.is_set() and _is_sign_of_life(channel, parts):
            self._first_sign.set()

    def _learn(self, event: Mapping[str, Any]) -> None:
        kind = event.get("event")
        if kind == "started":
            self._seen_generation = int(event["generation"])
            self._advance(self._seen_generation)
        elif kind == "exited" and int(event["generation"]) >= max(self.generation, self._asked_generation):
            self.is_gone = bool(event.get("asked")) and not self.is_asked_to_end
            self._die(exit_code_of(event), stderr_of(event), phase=_phase_of(event))
        elif kind == "restart_refused":
            self.refused_restart = (time.monotonic(), error_from_json(event.get("error") or {}))
        elif kind == "gone" and self._is_starting:  # the start reports its error or starts a new record
            self.generation, self._seen_generation, self._asked_generation = 0, 0, 1
        elif kind == "gone":
            self.lose(str(event.get("message", "The worker has no such kernel.")), is_gone=True)

    def _advance(self, generation: int) -> None:
        """Record that a newer process has started, and clear the exit status of the older process."""
        if generation > self.generation:
            self.generation = generation
            self._revive()

    def _revive(self) -> None:
        self.exit_code, self.reason, self.is_gone, self._node_end = None, "", False, None
        self._first_sign.clear()
        self._ended.clear()

    def _die(self, exit_code: int, reason: str, *, phase: str = "died") -> None:
        self.exit_code, self.reason = exit_code, harmless(reason, LONGEST_TEXT)
        self._first_sign.set()
        self._ended.set()
        # If the kernel never started, `wait_until_up` raises, which is the only report that the user should get.
        if exit_code and self._is_up and not self.is_asked_to_end:
            has_run = self.generation and phase == "died"
            died = f"The kernel died ({exit_text(exit_code)}). " if has_run else ""
            message = f"{died}{self.reason}".strip()
            code = {"died": KernelFailed.code, NODE_ENDED: NodeEnded.code}.get(phase, "")
            self._report({"phase": phase, "message": message, "fraction": None, "error_code": code})


def _phase_of(exited: Mapping[str, Any]) -> str:
    """Return the phase to report: `ended` if the user was already notified of the exit, otherwise `died`."""
    return "ended" if exited.get("is_told") else "died"


def _way_back(end: NodeEnd) -> str:
    """Return a hint on how to continue after the loss of a node, for clients that show no buttons."""
    if not any(action.command == START_NODE for action in end.actions):
        return "Create a node, then run the cells again."
    return Text("Start the node with `jupyter tpu start {node}`, then run the cells again.", node=end.node.node_id)


def _is_sign_of_life(channel: str, parts: Parts) -> bool:
    """Return whether the message is a status or a reply. Only these show that the kernel is ready.

    ipykernel's output thread sends other messages earlier.
    """
    return channel != "request" and any(b'"status"' in part for part in parts)


def _asks_to_run(channel: str, parts: Sequence[bytes]) -> bool:
    return channel == "shell" and any(b'"execute_request"' in part for part in parts[:_HEAD_PARTS])
