"""Manage one kernel and its resources in this process: local sockets, a shared link and the remote kernel.

A `KernelHost` runs in the event loop of its `LinkPool`. The sockets are opened first and closed last, so that clients
can connect before the kernel runs, and stay connected during restarts.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from jupyter_tpu.agent.recording.jupyter_messages import json_object
from jupyter_tpu.errors import BadInput, NodeNotFound, Text, TpuError, WorkerDiskFull, WrongState, plain
from jupyter_tpu.kernels.connections.pool import LinkPool, LinkStatus, WorkerLink
from jupyter_tpu.kernels.connections.worker import OnProgress, WorkerKey
from jupyter_tpu.kernels.cost_sender import keep_sending
from jupyter_tpu.kernels.environments.all_workers import all_of
from jupyter_tpu.kernels.environments.environment import KernelEnvironment
from jupyter_tpu.kernels.launch import Launch
from jupyter_tpu.kernels.messages.clients import LocalClients
from jupyter_tpu.kernels.messages.execution_log import ExecutionLog
from jupyter_tpu.kernels.messages.execution_watch import ExecutionWatch
from jupyter_tpu.kernels.messages.fanout import RecordFanout, Seq
from jupyter_tpu.kernels.messages.local_ports import Addresses, PortTaken, port_owner
from jupyter_tpu.kernels.messages.loop_bridge import LoopBridge
from jupyter_tpu.kernels.messages.not_run import not_run
from jupyter_tpu.kernels.messages.zmq_bridge import Bridge, Secrets
from jupyter_tpu.kernels.remote_kernel import RemoteKernel
from jupyter_tpu.kernels.slices import Slice
from jupyter_tpu.node_end import AGENT_CAUSES, NOTICED_CAUSES, EndCause, NodeEnd
from jupyter_tpu.notebook.slices import NOTE_VARIABLE

OnLink = Callable[[LinkStatus], None]

_REFUSED = (
    "The worker cannot be used: {} This kernel may still be running there. jupyter_tpu keeps trying to reconnect."
)
# How long to wait for the ports. If a front end kills a launcher, the launcher needs several seconds to shut down its
# kernel and release its ports.
_PORT_WAIT_S = 10.0
_PORT_TRY_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The loss of a node and everything on it.

    Attributes:
        host_key_alias: the worker's host key alias; empty if unknown.
        at: when the node was last reached (Unix seconds).
        known_at: when the cloud reported the loss (Unix seconds).
        end: how and why the node was stopped or deleted.
    """

    host_key_alias: str
    at: float
    known_at: float
    end: NodeEnd


def _ignore(status: LinkStatus) -> None:
    pass


class KernelHost:
    """One kernel for one front end. It is inactive until `start` or `attach` is called.

    Args:
        key: the worker.
        pool: the links of the current event loop.
        addresses, secrets: the addresses and secrets of the local sockets.
        on_link: called with each new status of the kernel's link.
        runs: the log of executed code, which the user can rerun if the node is lost; None for no log.
        environment: the kernel's environment; None for the worker's system Python.
        workers: how many of the node's workers run the kernel together, starting with worker 0.
        sends_costs: whether to send costs to the node, because no Jupyter server sends them.

    Attributes:
        loss: the loss of the node; None if it is not lost.
    """

    def __init__(
        self,
        key: WorkerKey,
        pool: LinkPool,
        addresses: Addresses,
        secrets: Secrets,
        on_link: OnLink = _ignore,
        runs: ExecutionLog | None = None,
        environment: KernelEnvironment | None = None,
        workers: int = 1,
        sends_costs: bool = False,
    ) -> None:
        self.loss: Loss | None = None
        self._key = key
        self._pool = pool
        self._addresses = addresses
        self._secrets = secrets
        self._on_link = on_link
        self._bridge = Bridge(addresses, secrets, pool.context)
        self._runs = ExecutionWatch(runs) if runs else None
        self._environment = environment or KernelEnvironment(key, "")
        self._workers = workers
        self._slice = self._slice_of(workers)
        self._note = ""  # shown in the next process's first cell
        # The fan-out sends each message to all readers: to local clients through the bridge, and to pages through a
        # `LoopBridge`.
        self._fanout = RecordFanout(self._observe)
        self._clients = LocalClients(self._bridge, self._fanout, 0)
        self._shared: WorkerLink | None = None
        self._kernel: RemoteKernel | None = None
        self._changing = asyncio.Lock()  # a start and a `give_up` must not overlap
        self._owner = uuid.uuid4().hex
        self._agents_cause: EndCause | None = None  # why the agent has stopped or deleted its node
        self._down_since: float | None = None  # Unix seconds; the best estimate of when a node was lost
        self._has_shown_refusal = False
        self._sends_costs = sends_costs
        self._sending: asyncio.Task[None] | None = None

    @property
    def workers(self) -> int:
        """The number of workers that run the kernel together; it may change when the node is recreated."""
        return self._workers

    @property
    def is_started(self) -> bool:
        """Whether the kernel was started; it may have exited since then."""
        return self._kernel is not None

    @property
    def kernel(self) -> RemoteKernel:
        """The kernel; available after `start` or `attach` has connected to the worker."""
        assert self._kernel, "not started"
        return self._kernel

    @contextmanager
    def naming_worker(self) -> Iterator[None]:
        """Add the worker's name to an error about a full disk, because only the user can make space on that disk."""
        try:
            yield
        except WorkerDiskFull as error:
            if self._slice:  # the error may belong to another worker, which the slice names
                raise
            number, node = self._key.worker_id, self._key.node.node_id
            error.exists = Text(
                "This is worker {worker_id} of {node}. The node keeps running and is billed.",
                worker_id=number,
                node=node,
            )
            error.hint = Text(
                "Log in with `jupyter tpu ssh {node} --worker {worker_id}`, delete files that you don't need, and try "
                "again.",
                worker_id=number,
                node=node,
            )
            raise

    async def start(self, launch: Launch, on_progress: OnProgress) -> None:
        """Bind the sockets, open the link if needed, and start the kernel.

        Raises:
            TpuError: the start failed. Completed steps are kept until `give_up` is called.
        """
        async with self._changing:
            with self.naming_worker():
                # Open the sockets first, because VS Code tests the ports of the connection file while the kernel is
                # still starting.
                await self._open_bridge(on_progress)
                if self._runs:
                    self._runs.begin()
                await self._join_workers(on_progress)
                launch = await self._provide(launch, on_progress)
                self._report(on_progress, "Starting the kernel")
                await self.kernel.start(launch, self._slice.begin if self._slice else None)
                if self._slice:
                    self._slice.follow(self.kernel)
                # Join before the kernel has responded: waiting requests are sent with the start, which saves a round
                # trip.
                self._bridge.join(self, self.kernel.expected_info)
                await self.kernel.wait_until_up()
        if self._sends_costs and not self._sending:
            self._sending = asyncio.create_task(keep_sending(self._key.node, self._key.endpoint, self.kernel.call))

    async def attach(self, kernel_id: str, on_progress: OnProgress) -> None:
        """Bind the sockets for a kernel that is already running, and open the link in the background."""
        async with self._changing:
            self._bridge.open()
            # Clients of the new sockets have received nothing yet; pages restore earlier output from the record.
            self._clients.close()
            self._clients = LocalClients(self._bridge, self._fanout, "end")
            self._owner = ""  # another process started this kernel
            if self._runs:
                self._runs.resume()
            self._use_link(self._pool.join(self._key), on_progress)
            self.kernel.attach(kernel_id)
            if self._slice:
                self._slice.attach(kernel_id, self.kernel)
            self._environment.attach(self.kernel.call)
            self._bridge.join(self)

    async def learn_state(self) -> Mapping[str, Any]:
        """Return the agent's ``kernel_info`` for an existing kernel, or an empty mapping if the kernel is gone.

        Waits for a subscriber first, because the kernel's messages would be lost without a subscriber.
        """
        await self._bridge.wait_for_reader()
        info = await self.kernel.learn_state()
        if self._runs and info:
            await self._runs.update_from_record(self.kernel.call)
        elif self._runs and self._shared:
            self._detect_loss(self._runs, self._shared)
        return info

    async def restart(self, launch: Launch, on_progress: OnProgress, *, after_death: bool = False) -> None:
        """Start the kernel again, over a new link if the old link is lost.

        Args:
            after_death: whether the kernel is restarted automatically because it died. The execution log is then kept.
        """
        self._bridge.publish()  # a KernelManager removes the names of Unix sockets at every shutdown
        if self._shared is None or self._shared.link.state == "lost":
            await self._leave_worker()
            await self._join_worker(on_progress)
            self._on_link(self.link_status)  # the last status reported was "lost"
        if self._slice:
            await self._join_slice(self._slice.join(on_progress), on_progress)
        launch = await self._provide(launch, on_progress)
        self._report(on_progress, "Restarting the kernel")
        if self._shared and self._is_another(self._shared):  # the record was lost with the old node
            if self._runs:
                await self._environment.report_lost_packages(self._runs.lost_code(), on_progress, self.notify)
            self._fanout.reset()
            self._fanout.publish_event("new_record")
        if self._runs and not after_death:
            self._runs.begin()
        with self.naming_worker():
            if self._slice:
                await self._slice.begin(launch)
            await self.kernel.restart(launch)
        if self._slice:
            self._slice.follow(self.kernel)
        # Clear the loss only now: after a failed restart, the next attempt still needs it.
        if self._runs and self.loss:
            self._runs.note_successor()
        self.loss = self._agents_cause = self._down_since = None
        self._bridge.join(self, self.kernel.expected_info)
        await self.kernel.wait_until_up()

    async def close(self) -> None:
        """Release all resources. If the link is connected, remove an exited kernel from its worker."""
        # A kernel that is still running was detached on purpose; only `give_up` shuts it down.
        has_ended = self._kernel is not None and self._kernel.exit_code is not None
        await self._release(and_forget=has_ended)

    async def leave(self) -> None:
        """Release all resources. The kernel keeps running, and its record is kept."""
        await self._release(and_forget=False)

    async def give_up(self) -> None:
        """Undo a kernel start on this machine and on the worker. Wait for a start in progress first."""
        async with self._changing:
            await self._release(and_forget=True)

    async def notify(self, text: str) -> None:
        """Print a notice in all front ends, in the cell that last produced output."""
        self._fanout.publish_event("words", message=text)

    async def report_wait(self) -> None:
        """Notify all pages that the kernel will start after its node has been recreated."""
        self._fanout.publish_event("waits_for_node")

    async def follow(self, follower: LoopBridge, from_seq: Seq) -> None:
        """Deliver the kernel's record to `follower`, starting at `from_seq` or at the next message."""
        follower.begin(self._fanout, from_seq, lambda channel, parts: self.kernel.send(channel, parts))

    async def hold_cells(self) -> None:
        """See `RemoteKernel.hold_cells`."""
        self.kernel.hold_cells()

    async def release_cells(self) -> None:
        """See `RemoteKernel.release_cells`."""
        self.kernel.release_cells()

    async def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Call a method of the agent for this kernel.

        Raises:
            TpuError: the agent returned an error, or the link is lost (`WorkerUnreachable`).
        """
        with self.naming_worker():
            return await self.kernel.call(method, params)

    async def check_restart(self) -> None:
        """Check that all workers can start a new process.

        Raises:
            EnvironmentFailed: the disk of a worker is full or not writable.
            TpuError: the agent returned an error, or the link is lost (`WorkerUnreachable`).
        """
        await self.call("check_restart", {})
        if self._slice:
            await self._slice.check()

    @property
    def link_status(self) -> LinkStatus:
        """The state of the link to the worker; may be read from any thread."""
        shared = self._shared
        return shared.status if shared else LinkStatus(state="lost", since=time.time())

    # -- methods for the bridge

    def send(self, channel: Any, parts: Sequence[bytes]) -> None:
        """Send a client's request.

        If the request can't be sent, send an error reply for a cell, and show a notice for any other request.
        """
        if channel == "control" and self.kernel.is_late(parts):
            return
        try:
            self.kernel.send(channel, parts)
        except TpuError as error:
            if event := not_run(parts, error):
                self._bridge.deliver(0, "event", [json.dumps(event).encode()])
            else:
                self._bridge.print_notice(str(error))

    def hold(self) -> None:
        """Pause delivery to the bridge, because a client's queue is full."""
        self._clients.hold()

    def resume(self) -> None:
        """Continue delivery after `hold`."""
        self._clients.resume()

    def let_replies_pass(self) -> None:
        """Deliver replies even while the delivery of output is paused."""
        self._clients.let_replies_pass()

    def _observe(self, channel: str, parts: list[bytes]) -> None:
        if channel == "event":
            self._agents_cause = _agents_cause(json_object(parts[0])) or self._agents_cause
        if self._runs:
            self._runs.observe(channel, parts)
        self._environment.observe(channel, parts)

    async def _open_bridge(self, on_progress: OnProgress) -> None:
        """Open the sockets; retry for a while if a killed launcher's ports are still in use."""
        until, waits_for = time.monotonic() + _PORT_WAIT_S, 0
        while True:
            try:
                return self._bridge.open()
            except PortTaken as error:
                if time.monotonic() > until:
                    raise BadInput(
                        Text(
                            "Port {port} of the connection file is in use by {owner}.",
                            port=error.port,
                            owner=await _owner_of(error.port),
                        ),
                        hint="End that process, or start the kernel with different ports.",
                    ) from error
                if waits_for != error.port:  # report once per port, not for each of ten attempts per second
                    waits_for = error.port
                    message = f"Waiting for port {error.port}, in use by {await _owner_of(error.port)}"
                    on_progress({"phase": "connecting", "message": message, "fraction": None})
            await asyncio.sleep(_PORT_TRY_S)

    async def _release(self, *, and_forget: bool) -> None:
        # Close the readers first, so that they get "closed" and no shutdown messages. Close the worker last, because it
        # may be slow.
        if self._sending:
            self._sending.cancel()
            await asyncio.wait([self._sending])
        self._environment.close()
        self._fanout.publish_event("closed")
        self._fanout.disconnect()
        self._bridge.close()
        try:
            if and_forget and self._kernel:
                await asyncio.gather(self._kernel.forget(), *([self._slice.stop()] if self._slice else []))
        finally:
            if self._slice:
                await self._slice.leave(is_complete=not and_forget)
            await self._leave_worker()

    def connection_info(self) -> dict[str, Any]:
        """Return the sockets' addresses and keys, as jupyter_client's connection info."""
        info: dict[str, Any] = {
            "transport": self._addresses.transport,
            "ip": self._addresses.ip,
            "key": self._secrets.key,
            "signature_scheme": self._secrets.signature_scheme,
            **self._addresses.ports,
        }
        if self._secrets.curve:
            info["curve_publickey"], info["curve_secretkey"] = (key.decode() for key in self._secrets.curve)
        return info

    def _report(self, on_progress: OnProgress, step: str) -> None:
        if self._shared and self._shared.link.is_up:
            on_progress({"phase": "starting_kernel", "message": step, "fraction": None})
        else:
            on_progress(
                {"phase": "connecting", "message": "Waiting for the connection to the worker", "fraction": None}
            )

    async def _join_workers(self, on_progress: OnProgress) -> None:
        joining = [self._join_worker(on_progress), *([self._slice.join(on_progress)] if self._slice else [])]
        await self._join_slice(all_of(joining), on_progress)

    async def _join_slice(self, joining: Awaitable[Any], on_progress: OnProgress) -> None:
        """Await `joining`; if the node has fewer workers than expected, continue with those that it has."""
        try:
            await joining
        except BadInput:  # there is no such worker
            if self._slice is None:
                raise
            if self._shared is None:
                await self._join_worker(on_progress)
            if await self._slice.count_workers() >= self._workers:
                raise
            await self._resize(self._slice.workers, on_progress)

    def _slice_of(self, workers: int) -> Slice | None:
        return Slice(self._key, workers, self._pool, self.notify) if workers > 1 else None

    async def _resize(self, workers: int, on_progress: OnProgress) -> None:
        """Run on all workers of a recreated node that has a different number of workers, and notify the user."""
        assert self._slice
        assert self._shared
        await self._slice.leave(is_complete=False)
        text = Text(
            "{node} now has {count} workers (before: {before}). The kernel runs on all of them.",
            node=self._key.node.node_id,
            count=workers,
            before=self._workers,
        )
        on_progress({"phase": "connecting", "message": text, "fraction": None})
        await self.notify(text)
        self._note = text  # most pages connect later
        self._environment.forget_python()  # other workers may not have it
        self._workers, self._slice = workers, self._slice_of(workers)
        if self._slice:
            self._slice.use(self._shared)
            await self._slice.join(on_progress)

    async def _provide(self, launch: Launch, on_progress: OnProgress) -> Launch:
        """Create the kernel's environment on all of its workers; return `launch` with the environment's Python."""
        launch = replace(launch, workers=self._workers)
        if self._slice is None:
            return await self._environment.provide(launch, self.kernel.call, on_progress, self.notify)
        provided = await self._environment.provide(launch, self._slice.call_everywhere, on_progress, self.notify)
        self._environment.attach(self.kernel.call)  # so that all workers get the packages that cells install later
        provided = await self._slice.prepare(provided)
        if self._slice.workers == self._workers:
            note, self._note = self._note, ""
            return replace(provided, env={**provided.env, NOTE_VARIABLE: note}) if note else provided
        await self._resize(self._slice.workers, on_progress)
        return await self._provide(launch, on_progress)

    async def _join_worker(self, on_progress: OnProgress) -> None:
        self._use_link(await self._pool.acquire(self._key, on_progress), on_progress)

    def _use_link(self, shared: WorkerLink, on_progress: OnProgress) -> None:
        self._shared = shared
        # On the same worker, events of earlier processes are still in the record; the generation distinguishes them.
        generation = self._kernel.generation if self._kernel and not self._is_another(shared) else 0
        self._kernel = RemoteKernel(shared.link, self._fanout, on_progress, owner=self._owner, generation=generation)
        if self._slice:
            self._slice.use(shared)
        if self._runs:
            self._runs.node = lambda: shared.last_host_key_alias
        shared.watchers.append(self._link_changed)

    def _link_changed(self, status: LinkStatus) -> None:
        if status.state == "live":
            self._down_since = None
        elif self._down_since is None:
            self._down_since = status.since
        if status.state == "lost":
            # If a node is deleted or stopped, its kernels are gone; after any other loss, they may still be running.
            is_gone = status.error_code in (NodeNotFound.code, WrongState.code)
            end = self._shared.node_end if self._shared and is_gone else None
            if self._shared and end:
                ran_on = self._runs.ran_on if self._runs else ""
                self._lose_node(ran_on or self._shared.last_host_key_alias, end)
            else:
                self.kernel.lose(status.message, is_gone=is_gone)
            self._fanout.publish_event("lost", message=status.message, error_code=status.error_code)
        self._answer_waiting(status)  # last, because handling a node's end replies to waiting cells itself
        self._on_link(status)

    def _answer_waiting(self, status: LinkStatus) -> None:
        """Reply to waiting cells if the link is lost or the user must fix a problem; notify the notebook once."""
        error = self._shared.link.error if self._shared else None
        if status.state == "live":
            self._has_shown_refusal = False
        elif error and (status.state == "lost" or self.kernel.refusal):
            self.kernel.refuse_waiting(error)
            if status.state == "down" and not self._has_shown_refusal:
                self._has_shown_refusal = True
                self._fanout.publish_event("words", message=_REFUSED.format(error.message))

    def _is_another(self, shared: WorkerLink) -> bool:
        """Return whether the worker's node is a different node from the lost one. A restarted node is the same node."""
        return self.loss is not None and self.loss.host_key_alias not in ("", shared.last_host_key_alias)

    def _lose_node(self, was_on: str, end: NodeEnd) -> None:
        now = time.time()
        at = self._down_since or now
        if end.why.cause in NOTICED_CAUSES:  # any other end has the time of the request
            end = replace(end, at=at)
        if end.why.cause == "unknown" and self._agents_cause:
            end = replace(end, why=self._agents_cause)
        self.loss = Loss(host_key_alias=was_on, at=at, known_at=now, end=end)
        self._environment.forget_python()
        if self._runs:
            self._runs.lose(end, at)
        self.kernel.end_with_node(end)

    def _detect_loss(self, runs: ExecutionWatch, shared: WorkerLink) -> None:
        """Record the node's loss if the kernel is gone and its cells ran on a worker other than the current one."""
        if self.kernel.is_gone and self.loss is None and runs.ran_on not in ("", shared.last_host_key_alias):
            end = shared.node_end or NodeEnd(
                node=self._key.node, why=EndCause(cause="unknown"), at=time.time(), is_deleted=True
            )
            self._lose_node(runs.ran_on, end)

    async def _leave_worker(self) -> None:
        shared, self._shared = self._shared, None
        if self._kernel:
            self._kernel.close()
        if shared:
            shared.watchers.remove(self._link_changed)
            await self._pool.release(self._key, shared)


def _agents_cause(event: Mapping[str, Any]) -> EndCause | None:
    """Return why the agent stopped or deleted its node; None if this is another event or its cause is invalid."""
    why = EndCause.from_json(event) if event.get("event") == "node_ending" else None
    if why is None or why.cause not in AGENT_CAUSES:
        return None
    harmless = plain(why.detail, 50)
    return replace(why, name="", detail=why.detail if harmless == why.detail else harmless)


async def _owner_of(port: int) -> str:
    return await asyncio.to_thread(port_owner, port) or "another process"
