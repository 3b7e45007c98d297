"""The links of this process: one per worker, shared by the worker's kernels, all in one background thread.

The links run in a separate thread because a blocking KernelManager has no event loop that runs between its calls, and
because large outputs must not block Jupyter Server's event loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import zmq

from jupyter_tpu.errors import NEEDS_REPAIR
from jupyter_tpu.kernels.connections.worker import OnProgress, Worker, WorkerKey
from jupyter_tpu.link import Link, LinkState
from jupyter_tpu.models import NodeName
from jupyter_tpu.node_end import NodeEnd

if TYPE_CHECKING:
    from jupyter_tpu.ssh import FileAccess

log = logging.getLogger(__name__)
T = TypeVar("T")

# Time for cancelled tasks to close their connections (4 s each, in parallel) and proxy commands.
_TIDYING_S = 10
_REPAIR_CODES = frozenset(error.code for error in NEEDS_REPAIR)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkStatus:
    """The state of the link to a worker.

    Attributes:
        state: connecting, live, down, resuming or lost; see `LinkState`.
        since: when the link entered this state, in Unix seconds.
        message: why the link is down or lost, for display.
        error_code: the `TpuError.code` of the error; empty if there is none.
    """

    state: str
    since: float
    message: str = ""
    error_code: str = ""

    @property
    def needs_repair(self) -> bool:
        """Whether the link can't reconnect until the user fixes a problem."""
        return self.state == "down" and self.error_code in _REPAIR_CODES


class WorkerLink:
    """The link to one worker, shared by its users.

    Attributes:
        users: how many callers have acquired the link and not released it.
        watchers: called with each new status, in the link thread.
        listeners: called with each step of the worker's preparation, in the link thread.
        status: the last status; may be read from any thread.
        slice_facts: the last result of the agent's ``prepare_slice`` for its default Python over this connection, or
            None.
    """

    def __init__(self, key: WorkerKey) -> None:
        self.users = 0
        self.watchers: list[Callable[[LinkStatus], None]] = []
        self.listeners: list[OnProgress] = []
        self.status = LinkStatus(state="connecting", since=time.time())
        self.slice_facts: Mapping[str, Any] | None = None
        self._key = key
        self._worker = Worker(key, self._progress)
        self.link = Link(
            self._worker.connect,
            memory=self._worker.preparation,
            on_progress=self._progress,
            on_state=self._state_changed,
            python=key.python,
        )
        self._opening: asyncio.Future[None] | None = None
        self._files: FileAccess | None = None
        self._files_lock = asyncio.Lock()

    @property
    def last_host_key_alias(self) -> str:
        """See `Worker.last_host_key_alias`."""
        return self._worker.last_host_key_alias

    @property
    def node_end(self) -> NodeEnd | None:
        """See `Worker.node_end`."""
        return self._worker.node_end

    async def open(self) -> None:
        """Open the link; concurrent callers share one attempt."""
        if self._opening is None:
            self._opening = asyncio.create_task(self.link.open())
        await asyncio.shield(self._opening)  # one caller's cancellation must not cancel the others' attempt

    def begin(self) -> None:
        """Start opening the link in the background; keep trying until the worker is reachable."""
        if self._opening is None:
            self.link.begin()
            self._opening = asyncio.get_running_loop().create_future()
            self._opening.set_result(None)

    async def files(self) -> FileAccess:
        """Return the worker's files; callers share one SFTP session, which is opened again after a disconnect.

        Raises:
            WorkerUnreachable: the link is not connected.
        """
        async with self._files_lock:
            if self._files is None or self._files.is_lost:
                self._files = await self.link.open_files()
            return self._files

    async def close(self) -> None:
        """Close the link."""
        if self._opening:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        await self.link.close()

    def _progress(self, progress: Mapping[str, Any]) -> None:
        for listener in tuple(self.listeners):
            listener(progress)

    def _state_changed(self, state: LinkState, error: Exception | None, since: float) -> None:
        log.info("link to %s worker %s: %s %s", self._key.node.node_id, self._key.worker_id, state, error or "")
        status = LinkStatus(state=state, since=since, message=str(error or ""), error_code=getattr(error, "code", ""))
        if status == self.status:
            return
        self.status = status
        self._files = None  # its session has ended with the connection
        self.slice_facts = None  # the worker may be another machine after the connection was lost
        for watcher in tuple(self.watchers):
            watcher(status)


class LinkPool:
    """The open links of one loop, by worker.

    Attributes:
        context: the ZMQ context for kernels' sockets; closed with the pool.
    """

    def __init__(self) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._links: dict[WorkerKey, WorkerLink] = {}

    async def acquire(self, key: WorkerKey, listener: OnProgress) -> WorkerLink:
        """Return the open link to a worker. The caller must release it with `release`.

        Args:
            listener: called with each step of the worker's preparation.

        Raises:
            TpuError: the link cannot be opened.
        """
        shared = self._share(key)
        shared.listeners.append(listener)
        try:
            await shared.open()
        except BaseException:
            await self.release(key, shared)
            raise
        finally:
            shared.listeners.remove(listener)
        return shared

    def join(self, key: WorkerKey) -> WorkerLink:
        """Return the link to a worker, even if the worker is unreachable.

        The caller must release the link with `release`.
        """
        shared = self._share(key)
        shared.begin()
        return shared

    def find_up(self, node: NodeName, endpoint: str, worker_id: int = 0) -> WorkerLink | None:
        """Return a connected link to a worker, whatever its proxy and login name, or None. The link is not acquired."""
        found = (
            shared
            for key, shared in self._links.items()
            if (key.node, key.endpoint, key.worker_id) == (node, endpoint, worker_id) and shared.link.is_up
        )
        return next(found, None)

    def _share(self, key: WorkerKey) -> WorkerLink:
        shared = self._links.get(key)
        # A lost link never recovers. Its remaining users release it, and new users get a new link.
        if shared is None or shared.link.state == "lost":
            shared = self._links[key] = WorkerLink(key)
        shared.users += 1
        return shared

    async def release(self, key: WorkerKey, shared: WorkerLink) -> None:
        """Release a link. The link is closed when its last user releases it."""
        shared.users -= 1
        if not shared.users:
            if self._links.get(key) is shared:
                del self._links[key]
            await shared.close()

    def close(self) -> None:
        """Close the ZMQ context."""
        self.context.destroy(linger=0)


class LinkThread:
    """The background thread that runs the links' event loop. It runs while it has users; see `enter` and `leave`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._running: _Running | None = None

    @property
    def is_used(self) -> bool:
        """Whether the thread is running."""
        return self._running is not None

    def enter(self) -> LinkPool:
        """Start the thread if needed and return its pool. The caller must call `leave` afterwards."""
        with self._lock:
            if self._running is None:
                self._running = _Running()
            self._users += 1
            return self._running.pool

    def leave(self) -> None:
        """Remove one user of the thread. If there are no more users, stop the thread; this may block."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            running, self._running = self._running, None
        if running:
            running.stop()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the thread's loop and await it from another loop. Cancelling this call cancels `work`."""
        return await asyncio.wrap_future(self.submit(work))

    async def finish(self, work: Coroutine[Any, Any, None], patience_s: float) -> bool:
        """Run `work`, then call `leave`. Return whether both finished within `patience_s` seconds.

        After a timeout, `work` continues in the thread, because it may be waiting for a disconnected link.
        """
        # Don't use `run`: a caller's cancellation or timeout must not cancel the work.
        loop, ended, future = asyncio.get_running_loop(), asyncio.Event(), self.submit(work)
        future.add_done_callback(lambda _: _call_in(loop, ended.set))
        try:
            async with asyncio.timeout(patience_s):
                await ended.wait()
        except BaseException as error:
            future.add_done_callback(lambda _: self.leave())  # the work keeps the thread alive until it is done
            if isinstance(error, TimeoutError):
                return False
            raise
        await self._leave_in_thread()
        future.result()
        return True

    async def _leave_in_thread(self) -> None:
        try:
            leaving = asyncio.get_running_loop().run_in_executor(None, self.leave)
        except RuntimeError:  # the interpreter is exiting and starts no more threads
            self.leave()
        else:
            await leaving

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` in the event loop of the link thread, and return its future."""
        assert self._running, "nobody has entered"
        return asyncio.run_coroutine_threadsafe(work, self._running.loop)


def _call_in(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed, so nothing is waiting in it
        loop.call_soon_threadsafe(function)


class _Running:
    """A running thread with its loop and pool."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.pool = LinkPool()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._main, name="jupyter-tpu links", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the loop and wait for the thread to exit, unless called from that thread."""
        self.loop.call_soon_threadsafe(self._stopped.set)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _main(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._until_stopped())
        self.pool.close()

    async def _until_stopped(self) -> None:
        """Wait until nothing uses this thread any more, and then until cancelled tasks have finished their cleanup."""
        await self._stopped.wait()
        tidying = asyncio.all_tasks() - {asyncio.current_task()}
        if tidying:
            await asyncio.wait(tidying, timeout=_TIDYING_S)


link_thread = LinkThread()
"""The link thread of this process; it starts when it is first used."""
