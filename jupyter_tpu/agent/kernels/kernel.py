"""One kernel: its process, its sockets and its record, across restarts of the process and of the agent."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import zmq

from jupyter_tpu.agent.clock import boot_id
from jupyter_tpu.agent.kernels.kernel_dir import KernelDirectory
from jupyter_tpu.agent.kernels.launch_request import Launch
from jupyter_tpu.agent.kernels.launcher import Launcher
from jupyter_tpu.agent.kernels.lost_replies import LostReplies
from jupyter_tpu.agent.kernels.process import Exit, Process, ReportedExits, end_of
from jupyter_tpu.agent.kernels.replies import Replies
from jupyter_tpu.agent.kernels.sockets import KernelSockets
from jupyter_tpu.agent.kernels.takeover import Takeover, abort_all
from jupyter_tpu.agent.paths import Home
from jupyter_tpu.agent.recording.checkpoint import Checkpoint
from jupyter_tpu.agent.recording.jupyter_messages import (
    asks_to_restart,
    header_place,
    is_execute_request,
    json_object,
    text_of,
    without_content,
)
from jupyter_tpu.agent.recording.record import Record
from jupyter_tpu.agent.recording.recorder import Recorder
from jupyter_tpu.agent.recording.watermark import Watermark
from jupyter_tpu.errors import EnvironmentFailed, TpuError
from jupyter_tpu.wire.multipart import Channel
from jupyter_tpu.worker_clock import boot_clock, booted_at, wall_clock

Caller: TypeAlias = "tuple[str, int]"
"""The client's id and the number of its call; a repeated call has the same number."""

# Number of clients whose last start, signal and abort are stored with a kernel. Bounds the size of the state file,
# which is rewritten for each of these calls.
_MOST_CALLERS = 100
# Number of seqs to skip after a reboot, because it is unknown how many entries were not written to disk. This is more
# entries than fit in a page cache.
_SKIP_AFTER_BOOT = 10_000_000
_STATE_DAMAGED = "The state of this kernel on the worker's disk is damaged, so the kernel was ended."
_CUT_OFF = (
    "The kernel's sockets were removed from the worker, and the agent that was connected to them has ended: the kernel "
    "was ended too."
)
# Characters of the process's last output line that are quoted as the reason why a cell was not run.
_LAST_WORDS = 300
# How long to wait for a restart after a kernel has died. Jupyter checks every 3 s whether a kernel has died, and then
# restarts it.
_NEXT_PROCESS_S = 8.0
_ENDED_UNOBSERVED = "The kernel ended while no agent ran on the worker; its last output is lost."


@dataclass(frozen=True)
class KernelContext:
    """The resources shared by an agent's kernels: the folder, ZMQ context, reported exits and launcher.

    Attributes:
        on_end: called with a kernel's id and generation when the exit of its process is recorded.
    """

    home: Home
    context: zmq.Context[zmq.Socket[bytes]]
    reports: ReportedExits
    launcher: Launcher
    on_end: Callable[[str, int], None]


class Kernel:
    """A kernel, possibly without a process.

    Requests wait while there is no process, because they would be lost in sockets that are about to be replaced.
    Requests on the control channel are dropped instead, because they were meant for the process that has exited.

    Args:
        on_output: called after each recorded batch.

    Attributes:
        is_closed: whether the agent has permanently disconnected from the kernel.
        record: all messages that the kernel emitted.
        requests: the index of its execute requests.
        user_requests: number of cells and replies to ``input()`` received since this agent started.
    """

    def __init__(self, kernel_id: str, surroundings: KernelContext, on_output: Callable[[], None]) -> None:
        self.kernel_id = kernel_id
        self.is_closed = False
        self._around = surroundings
        self._folder = KernelDirectory(surroundings.home, kernel_id)
        self.record = Record(self._folder.record)
        heard, checkpoint = Watermark(self._folder.watermark), Checkpoint(self._folder.checkpoint)
        self._on_output = on_output
        self._recorder = Recorder(self.record, heard, checkpoint, self._recorded, self._acknowledge)
        self._recorder.on_probe_answer = self._probe_answered
        self.requests = self._recorder.requests
        self._lost_replies = LostReplies(self.record, self._recorder, self._replies, self._send)
        self._process: Process | None = None
        self._sockets: KernelSockets | None = None
        self._takeover: Takeover | None = None
        self._waiting: list[tuple[Channel, list[bytes]]] = []
        self._changing = asyncio.Lock()
        self._watch: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._is_starting = False
        self._asked_to_end = False
        self._why_ended = ""
        self._is_told = False  # whether the user already knows why the process exits
        self.user_requests = 0

    # -- start and exit

    @property
    def had_process(self) -> bool:
        """Whether the kernel ever had a process."""
        return "generation" in self._folder.state

    @property
    def is_stale(self) -> bool:
        """Whether the kernel exited so long ago that its output is no longer needed."""
        return self._folder.is_stale

    async def start(self, launch: Launch, caller: Caller | None = None) -> None:
        """Start a process, unless a process is running or an earlier agent has started one for the same call.

        Raises:
            EnvironmentFailed: the disk is full or read-only.
            KernelFailed: the process can't be started.
        """
        async with self._changing:
            try:
                if self._process is None and not self.is_closed and not self._was_launched_for(caller):
                    self.expect_start()
                    await self._around.launcher.wait_for_code()
                    await self._launch(launch, caller)
            finally:
                self.expect_no_start()

    async def restart(self, launch: Launch, caller: Caller | None = None) -> None:
        """Kill the process, wait for its exit (it may use the TPU) and start a new one with the same record.

        Do nothing if an earlier agent has already restarted the kernel for the same call, because the call was meant
        for the old process.

        Raises:
            EnvironmentFailed: the disk is full or read-only; the process keeps running.
            KernelFailed: the new process can't be started.
        """
        async with self._changing:
            self.expect_start()
            try:
                if self._was_launched_for(caller):
                    return
                await self._prepare_restart()
                await self._end()
                if not self.is_closed:
                    await self._launch(launch, caller)
            finally:
                self.expect_no_start()

    async def _prepare_restart(self) -> None:
        """Check that a new process can be started; if not, abort the cells that wait for it."""
        try:
            await self._around.launcher.wait_for_code()
            self._folder.check_room()
        except TpuError:
            for parts in self._take_waiting_cells():
                self._replies().abort(parts)
            raise

    def check_restart(self) -> None:
        """Check that a new process can be started. If it can't, record why, and keep the current process.

        Raises:
            EnvironmentFailed: the disk is full or read-only.
        """
        try:
            self._folder.check_room()
        except EnvironmentFailed as error:
            self.event("restart_refused", error=error.to_json())
            raise

    def abort_until(self, caller: Caller) -> None:
        """Abort a client's requests up to the number in `caller`: they were meant for the process being replaced."""
        self._folder.save(abort_until=_with_caller(self._folder.state.get("abort_until"), caller, caller[1]))

    def expect_start(self) -> None:
        """Delay requests until the next process starts; call `start`, `restart` or `expect_no_start` afterwards."""
        self._is_starting = True

    def expect_no_start(self) -> None:
        """Send the delayed requests to the current process."""
        self._is_starting = False
        waiting, self._waiting = self._waiting, []
        for channel, parts in waiting:
            self._send(channel, parts)

    async def kill(self, owner: str = "") -> bool:
        """Kill the process with SIGKILL; return False if it has another owner, or True once its exit is recorded.

        Args:
            owner: the owner that requests the kill; empty for any owner.
        """
        async with self._changing:
            if owner and self._folder.state.get("owner", owner) != owner:
                return False
            await self._end()
            return True

    def send_signal(self, number: int) -> None:
        """Send a signal to the kernel's process and its children; do nothing if the process has exited."""
        if self._process is not None:
            self._asked_to_end = self._asked_to_end or number not in (0, signal.SIGINT)
            self._process.send_signal(number)

    def signal_for(self, caller: Caller | None, number: int) -> bool:
        """Return whether the signal of a call must be sent, and record it as sent.

        A call that an earlier agent started is repeated only if it terminates the same process, because a repeated
        interrupt could stop a later cell, and a repeated kill could end the next process.
        """
        if caller is None:
            return True
        generation = self._folder.state.get("generation", 0)
        signalled = self._folder.state.get("signalled_by")
        before = signalled.get(caller[0]) if isinstance(signalled, dict) else None
        if before and caller[1] <= before[0]:
            return bool(number != signal.SIGINT and before[1] == generation)
        self._folder.save(signalled_by=_with_caller(signalled, caller, [caller[1], generation]))
        return True

    def end_because(self, reason: str) -> None:
        """Terminate the process with SIGTERM, and show the reason to the kernel's user."""
        self._why_ended, self._is_told = reason, True
        self.event("words", message=reason)
        self.send_signal(signal.SIGTERM)

    def notify_hook(self, data: bytes) -> bool:
        """Notify the process's checkpoint hook that the node is about to stop; return whether there is a hook."""
        return self._process is not None and self._folder.notify_hook(data)

    def event(self, name: str, **content: Any) -> None:
        """Record an agent event about this kernel."""
        self._recorder.event(name, **content)

    def adopt(self) -> None:
        """Connect to the process that an earlier agent started, or record that it has since exited."""
        self._recorder.recover()
        state = self._folder.state
        # The record says that the kernel was running, but the state is damaged. The kernel can't be used again, so it
        # must not use the TPU.
        if not state and self.requests.execution_state != "starting":
            self._folder.save(generation=self.requests.generation or 0)
            self._why_ended = _STATE_DAMAGED
            self.record.skip(_SKIP_AFTER_BOOT)  # without the state, it is unknown whether the machine has restarted
            self._watch = asyncio.create_task(self._record_unobserved_end(self._folder.kill_listener(), Exit()))
        # The process had exited or never started: abort the requests that were waiting for it.
        elif not state.get("pid"):
            self._folder.count_age()
            queued = [request for request in self.requests.all() if request.state == "queued"]
            self._watch = asyncio.create_task(abort_all(self.record, self._replies(), queued))
        # The machine has restarted: PIDs are no longer valid, and entries that clients have received may be missing on
        # disk.
        elif state["boot_id"] != boot_id():
            self.record.skip(_SKIP_AFTER_BOOT)
            self._watch = asyncio.create_task(self._record_unobserved_end(state["pid"], Exit()))
        # The process is still running: connect to it, and find out what became of the requests that the previous agent
        # was handling.
        elif process := Process.find(state["pid"], state["started"], self._around.reports):
            if self.requests.generation is not None and self.requests.generation < state["generation"]:
                self._recorder.event("started", pid=process.pid, generation=state["generation"])
            self._connect(process)
            replies, search = self._replies(), self._search_lost_replies
            self._takeover = Takeover(self.record, self._recorder, replies, self._send, search)
            if state.get("is_cut_off"):
                self._why_ended = _CUT_OFF
                process.send_signal(signal.SIGKILL)
        else:
            self._watch = asyncio.create_task(self._learn_of_end(state["pid"]))

    @property
    def awaits_resent(self) -> bool:
        """Whether the process still has to resend messages that clients may have seen; see `Recorder`."""
        return self._sockets is not None and self._recorder.awaits_resent

    @property
    def is_whole(self) -> bool:
        """Whether all files that `restore` can write are still on the disk."""
        return self._folder.is_whole and self._recorder.is_whole

    def restore(self) -> None:
        """Restore removed folders and files; raise OSError or AgentBroken on failure."""
        self._folder.restore()
        self._recorder.restore()

    def close(self) -> None:
        """Disconnect from the kernel, which keeps running."""
        self.is_closed = True
        if self._watch is not None:
            self._watch.cancel()
        if self._sockets is not None:
            self._sockets.close()
        if self._process is not None:
            self._process.close()
        self._close_takeover()
        self._lost_replies.close()
        self._recorder.close()
        self.record.close()
        self._folder.close()

    def remove(self) -> None:
        """Delete all files of a closed kernel."""
        self._folder.remove()

    # -- messages

    def request(
        self, client_id: str, number: int, channel: Channel, parts: list[bytes], *, requested_at: float | None = None
    ) -> None:
        """Pass a client's message to the kernel, unless it has already been passed on.

        Args:
            number: the client's number for the request, used to recognise repetitions.
            requested_at: when a delayed request was made (seconds of the boot clock). The request is aborted if a
                failed cell would have aborted it at that time.
        """
        if self.is_closed or not self._folder.is_new_request(client_id, number):
            return
        # A front end sends a shutdown request before a restart. Refuse it here, because it's too late once the process
        # has exited.
        if channel == Channel.CONTROL and asks_to_restart(parts):
            try:
                self.check_restart()
            except EnvironmentFailed:
                return
        self._record_request(channel, parts)
        is_cell = _is_cell(channel, parts)
        if channel == Channel.SHELL and not is_cell:
            self.requests.expect_reply(parts)
        if number <= self._folder.state.get("abort_until", {}).get(client_id, 0):
            if is_cell:
                self._replies().abort(parts)
        elif is_cell and requested_at is not None and self.requests.would_abort_at(requested_at):
            self._replies().abort(parts)
        elif self._takeover is None or not self._takeover.hold(channel, parts):
            self._send(channel, parts)

    def _send(self, channel: Channel, parts: list[bytes]) -> None:
        if self._sockets is not None and not self._is_starting:
            self._sockets.send(channel, parts)
        # Drop an interrupt or shutdown for a process that has already exited, so that it doesn't reach the next
        # process.
        elif channel != Channel.CONTROL or self.is_alive:
            self._waiting.append((channel, parts))
            asyncio.get_running_loop().call_later(_NEXT_PROCESS_S, self._refuse_cells)

    def _refuse_cells(self) -> None:
        """Send an error reply to waiting cells because no process was started; other requests keep waiting."""
        if self.is_alive or self.is_closed:
            return
        for parts in self._take_waiting_cells():
            self._replies().fail(parts, "KernelEnded", self._why_not_run())

    def _take_waiting_cells(self) -> list[list[bytes]]:
        """Remove the cells from the requests that wait for a process, and return them."""
        cells = [parts for channel, parts in self._waiting if _is_cell(channel, parts)]
        self._waiting = [(channel, parts) for channel, parts in self._waiting if not _is_cell(channel, parts)]
        return cells

    def _replies(self) -> Replies:
        return Replies(self._recorder, self._folder.signer())

    def _why_not_run(self) -> str:
        ended = self._folder.state.get("exit") or {}
        how = ended.get("signal") or ("" if ended.get("exit_code") is None else f"exit code {ended['exit_code']}")
        *_, last_words = ["", *str(ended.get("stderr") or "").strip().splitlines()]
        said = f" Its last output: {last_words[:_LAST_WORDS]}" if last_words else ""
        return f"The cell was not run: the kernel ended{f' ({how})' if how else ''}. Restart the kernel.{said}"

    def _record_request(self, channel: Channel, parts: list[bytes]) -> None:
        """Record a cell or a reply to ``input()`` before passing it on; for a password, record only its arrival."""
        if _is_cell(channel, parts):
            self._recorder.record(Channel.REQUEST, [parts])
            self.user_requests += 1
        elif channel == Channel.STDIN and (place := header_place(parts)):
            is_open = self.requests.may_be_recorded(parts[place + 1])
            self._recorder.record(
                Channel.REQUEST, [parts if is_open else without_content(parts, self._folder.signer())]
            )
            self.user_requests += 1

    @property
    def is_alive(self) -> bool:
        """Whether the kernel has a process or one is being started."""
        return self._process is not None or self._is_starting

    @property
    def execution_state(self) -> str:
        """Jupyter's execution state: starting, idle, busy or dead; JupyterLab stops using a dead kernel."""
        if self._is_starting:
            return "starting"
        return self.requests.execution_state if self._process else "dead"

    @property
    def is_executing(self) -> bool:
        """Whether the user's code is running or queued."""
        return self._process is not None and self.requests.is_executing(boot_clock())

    @property
    def outputs(self) -> int:
        """Number of outputs since this agent started."""
        return self.requests.outputs

    @property
    def ends_alone_after_s(self) -> float | None:
        """Maximum seconds that the kernel may be idle without a client, or None for no limit."""
        limit_s = self._folder.state.get("ends_alone_after_s")
        return limit_s if isinstance(limit_s, (int, float)) else None

    @property
    def notebook(self) -> str:
        """The notebook's path, as given by the front end that started the kernel, or an empty string."""
        return str(self._folder.state.get("notebook") or "")

    @property
    def client_note(self) -> dict[str, Any]:
        """The client's stored note, or an empty dict if there is none."""
        note = self._folder.state.get("note")
        return note if isinstance(note, dict) else {}

    @property
    def generation(self) -> int:
        """Number of processes that the kernel has had."""
        return int(self._folder.state.get("generation", 0))

    @property
    def controller_folder(self) -> Path:
        """The folder for the files of a slice's controller; removed with the kernel."""
        return self._folder.controller

    @property
    def pid(self) -> int | None:
        """The pid of the kernel's process, or None while it has none."""
        return self._process.pid if self._process else None

    @property
    def python(self) -> str:
        """The Python that the kernel's process runs on."""
        return str(self._folder.state.get("python") or "")

    def note(self, note: dict[str, Any]) -> None:
        """Store a client's note with the kernel."""
        self._folder.save(note=note)

    def describe(self) -> dict[str, Any]:
        """Return the kernel's state for `list_kernels` and `kernel_info`."""
        state, since, last = self._folder.state, self.requests.state_since, self._recorder.last_output_at
        booted = booted_at()
        return {
            "kernel_id": self.kernel_id,
            "alive": self.is_alive,
            "execution_state": self.execution_state,
            "state_since": None if since is None else booted + since,
            "note": state.get("note"),
            "pid": self.pid,
            "generation": self.generation,
            "workers": state.get("workers", 1),
            "python": state.get("python", ""),
            "started_at": state.get("started_at"),
            "now": wall_clock(),
            "last_output_at": None if last is None else booted + last,
            "exit": state.get("exit"),
            "first_seq": self.record.first_seq,
            "next_seq": self.record.next_seq,
            "record_bytes": self.record.end - self.record.start,
        }

    def _was_launched_for(self, caller: Caller | None) -> bool:
        launched = self._folder.state.get("launched_by")
        return caller is not None and isinstance(launched, dict) and caller[1] <= launched.get(caller[0], 0)

    async def _launch(self, launch: Launch, caller: Caller | None) -> None:
        """Start a process, store the data that a later agent needs to find it, connect to it and record the start."""
        await self._end_is_recorded()
        self._folder.check_room()
        process = await self._around.launcher.launch(self.kernel_id, self._folder, launch)
        generation = self.generation + 1
        # Restart the numbering before a later agent can find the new process, which numbers its messages from 1.
        self._recorder.restart_numbering()
        self._folder.save(
            pid=process.pid,
            started=process.started,
            boot_id=boot_id(),
            identity=secrets.token_hex(16),
            generation=generation,
            python=self._around.launcher.python_of(launch),
            started_at=wall_clock(),
            notebook=launch.env.get("JPY_SESSION_NAME", ""),
            owner=launch.owner,
            is_cut_off=False,
            launched_by=_with_caller(self._folder.state.get("launched_by"), caller, caller[1] if caller else 0),
            ends_alone_after_s=launch.ends_alone_after_s,
            workers=launch.workers,
            exit=None,
            ended=None,
        )
        self._connect(process)
        self._recorder.event("started", pid=process.pid, generation=generation)

    def _connect(self, process: Process) -> None:
        self._process = process
        self._asked_to_end, self._why_ended, self._is_told = False, "", False
        self._ended.clear()
        identity = bytes.fromhex(self._folder.state["identity"])
        sockets = KernelSockets(self._around.context, self._folder.socket_prefix, identity, self._deliver)
        sockets.attach(self._recorder.number)
        self._sockets = sockets
        self._watch = asyncio.create_task(self._watch_end(process, sockets))

    def _deliver(self, channel: Channel, batch: list[list[bytes]]) -> None:
        if channel == Channel.IOPUB:
            self._recorder.record_numbered(batch)
        else:
            self._recorder.record(channel, batch)

    def _recorded(self) -> None:
        self._on_output()
        self._search_lost_replies()

    def _search_lost_replies(self) -> None:
        """Replace missing replies of the running process, once the takeover from an earlier agent is complete."""
        if self._process is not None and (self._takeover is None or self._takeover.is_done):
            self._lost_replies.search()

    def _probe_answered(self, channel: int, parts: list[bytes]) -> None:
        self._lost_replies.probe_answered(channel, parts)
        if self._takeover is not None:
            self._takeover.probe_answered(channel, parts)

    def _acknowledge(self, number: int) -> None:
        if self._sockets is not None:
            self._sockets.acknowledge(number)

    async def _watch_end(self, process: Process, sockets: KernelSockets) -> None:
        """Wait for the process to exit, then record its last messages and the exit."""
        ended = await end_of(process, self._folder.trim_output)
        await sockets.drain()
        sockets.close()
        process.close()
        if self._takeover is not None:
            self._takeover.abort()
        self._close_takeover()
        self._sockets = self._process = None
        await self._lost_replies.kernel_ended()
        self._record_end(process.pid, ended)

    def _close_takeover(self) -> None:
        if self._takeover is not None:
            self._takeover.close()
            self._takeover = None

    async def _learn_of_end(self, pid: int) -> None:
        ended = await self._around.reports.of(pid)
        if self.requests.execution_state == "busy":
            self._recorder.event("gap", messages=None, reason=_ENDED_UNOBSERVED)
        await self._record_unobserved_end(pid, ended)

    async def _record_unobserved_end(self, pid: int, ended: Exit) -> None:
        """Record an exit that no agent observed, and send replies for the cells that were unfinished."""
        unanswered = [request for request in self.requests.all() if request.state != "done" and not request.status]
        await self._lost_replies.kernel_ended()
        self._record_end(pid, ended)
        await abort_all(self.record, self._replies(), unanswered)

    def _record_end(self, pid: int, ended: Exit) -> None:
        outcome = {
            "exit_code": ended.exit_code,
            "signal": ended.signal,
            "asked": self._asked_to_end,
            "stderr": self._why_ended or self._folder.output_tail(),
            "is_told": self._is_told,
        }
        self._folder.save(pid=None, exit=outcome)
        self._folder.count_age()
        # Keep the cells that wait for the next process: a later agent must still find them queued.
        kept = [_msg_id_of(parts) for channel, parts in self._waiting if _is_cell(channel, parts)]
        generation = self._folder.state["generation"]
        self._recorder.event("exited", pid=pid, generation=generation, **outcome, **({"kept": kept} if kept else {}))
        self._ended.set()
        self._around.on_end(self.kernel_id, generation)

    async def _end(self) -> None:
        if self._process is not None:
            self.send_signal(signal.SIGKILL)
            await self._ended.wait()
        await self._end_is_recorded()

    async def _end_is_recorded(self) -> None:
        """Wait until the previous process's exit is in the record, so that the next exit gets its own entry."""
        if self._process is None and self._watch is not None:
            await asyncio.wait([self._watch])


def _is_cell(channel: Channel, parts: list[bytes]) -> bool:
    return channel == Channel.SHELL and is_execute_request(parts)


def _msg_id_of(parts: list[bytes]) -> str:
    return text_of(json_object(parts[header_place(parts)]), "msg_id")


def _with_caller(noted: Any, caller: Caller | None, value: Any) -> dict[str, Any]:
    """Return the map of callers with this caller's `value` added, limited to the newest `_MOST_CALLERS` entries."""
    callers = dict(noted) if isinstance(noted, dict) else {}
    if caller is not None:
        callers.pop(caller[0], None)
        callers[caller[0]] = value
    return dict(list(callers.items())[-_MOST_CALLERS:])
