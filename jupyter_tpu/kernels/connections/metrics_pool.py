"""Keep links open to all workers of a node while a client requests the node's metrics.

A link that is already open, for example for a kernel, is reused. This module opens other links, a few at a time, and
releases them some time after the last request. A request never creates or starts a node and never waits long: if a
worker does not respond, its last response is returned with the error.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jupyter_tpu.errors import Text, TpuError, WorkerUnreachable, WrongState
from jupyter_tpu.kernels.connections.pool import LinkPool, WorkerLink, link_thread
from jupyter_tpu.kernels.connections.worker import WorkerKey

HELD_S = 60.0
"""How long a link stays open after the last request, in seconds."""

# The panel polls every second. If a response takes longer than this, the next request returns it.
_ANSWER_S = 1.5
# How long to wait for a new connection. If it takes longer, the next request will find it open.
_OPENING_S = 0.3
# Maximum number of connections that one request opens, so that a slice with many workers doesn't open hundreds of them
# at once.
_OPENED_AT_ONCE = 8
# Delay before a lost link is opened again. It may fail at once again, for example because of a wrong key, so this
# limits attempts and log lines.
_LOST_AGAIN_AFTER_S = 30.0


_Key = tuple[str, tuple[WorkerKey, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The latest response from a worker's agent.

    Attributes:
        content: the response; None before the first response.
        at: when the response arrived, in Unix seconds.
        error: why the latest call failed; None if `content` is the response to the latest call.
    """

    worker_id: int
    content: Mapping[str, Any] | None = None
    at: float | None = None
    error: TpuError | None = None


class MetricsPool:
    """Calls agents over links that it keeps open. Use a pool from one event loop; links run in the link thread."""

    def __init__(self) -> None:
        self._nodes: dict[_Key, _Node] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(
        self,
        keys: Collection[WorkerKey],
        method: str,
        params: Mapping[str, Any],
        *,
        uid: str = "",
        patience_s: float | None = None,
    ) -> list[Answer]:
        """Return the responses of all workers of one node, in the order of `keys`.

        Args:
            keys: the node's workers.
            method, params: see `Link.call`.
            uid: the node's uid, so that responses from an earlier node with the same name are not returned.
            patience_s: the timeout in seconds for connecting to each worker and receiving its response. None means
                about one second, for callers that poll.
        """
        if not keys:
            return []
        node = self._held((uid, tuple(keys)))
        return await link_thread.run(node.call_all(method, params, patience_s))

    def _held(self, key: _Key) -> _Node:
        node = self._nodes.get(key)
        if node is None or not node.touch():
            node = self._nodes[key] = _Node(link_thread.enter(), key[1])
            task = asyncio.create_task(self._hold(key, node))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return node

    async def _hold(self, key: _Key, node: _Node) -> None:
        try:
            await link_thread.run(node.hold())
        finally:
            if self._nodes.get(key) is node:
                del self._nodes[key]
            await asyncio.to_thread(link_thread.leave)

    async def close(self) -> None:
        """Release all links."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@dataclass
class _Held:
    """The link to one worker, if this pool has opened it, and the worker's last response over any link."""

    shared: WorkerLink | None = None
    last: Answer = field(default_factory=lambda: Answer(worker_id=0))
    lost_at: float = -_LOST_AGAIN_AFTER_S
    loss: TpuError | None = None


class _Node:
    """The workers of one node. All methods except `touch` run in the link thread."""

    def __init__(self, pool: LinkPool, keys: tuple[WorkerKey, ...]) -> None:
        self._pool = pool
        self._held = {key: _Held(last=Answer(worker_id=key.worker_id)) for key in keys}
        self._requested_at = time.monotonic()
        self._is_over = False

    def touch(self) -> bool:
        """Keep the links open for another `HELD_S` seconds; return False if they are already being released."""
        self._requested_at = time.monotonic()
        return not self._is_over

    async def hold(self) -> None:
        """Keep the links open until `HELD_S` seconds after the last request, or until cancelled."""
        try:
            while (left_s := self._requested_at + HELD_S - time.monotonic()) > 0:  # noqa: ASYNC110 - each request moves it
                await asyncio.sleep(left_s)
        finally:
            self._is_over = True
            await asyncio.gather(*(self._release(key, held) for key, held in self._held.items()))

    async def call_all(self, method: str, params: Mapping[str, Any], patience_s: float | None) -> list[Answer]:
        """Return the responses of all workers."""
        self._open_some()
        calls = (self._call_worker(key, held, method, params, patience_s) for key, held in self._held.items())
        return list(await asyncio.gather(*calls))

    def _open_some(self) -> None:
        missing = [key for key, held in self._held.items() if held.shared is None and not self._up(key)]
        now = time.monotonic()
        # Retry at once if the node has been restarted in the meantime; other lost links must wait.
        due = [
            key
            for key in missing
            if now - self._held[key].lost_at >= _LOST_AGAIN_AFTER_S or _is_outdated(self._held[key].loss)
        ]
        if not self._is_over:
            for key in due[:_OPENED_AT_ONCE]:
                self._held[key].shared = self._pool.join(key)

    def _up(self, key: WorkerKey) -> WorkerLink | None:
        return self._pool.find_up(key.node, key.endpoint, key.worker_id)

    async def _call_worker(
        self, key: WorkerKey, held: _Held, method: str, params: Mapping[str, Any], patience_s: float | None
    ) -> Answer:
        # A kernel's link may be connected before ours. Use the kernel's link even if it has a different proxy or login.
        shared = self._up(key) or held.shared
        if shared is None:
            return replace(held.last, error=held.loss or _waits(key))
        wait_s = patience_s or (_ANSWER_S if shared.link.is_up else _OPENING_S)
        try:
            async with asyncio.timeout(wait_s):
                content = await shared.link.call(method, params)
        except TimeoutError:
            error = None if _is_outdated(shared.link.error) else shared.link.error
            return replace(held.last, error=error or _silent(key, wait_s, is_up=shared.link.is_up))
        except TpuError as error:
            if shared is held.shared and shared.link.state == "lost":
                held.lost_at, held.loss = time.monotonic(), error
                await self._release(key, held)
            return replace(held.last, error=error)
        held.loss = None
        answer = Answer(worker_id=key.worker_id, content=content, at=time.time())
        if method == "metrics":  # don't store other responses, which would be shown as metrics later
            held.last = answer
        return answer

    async def _release(self, key: WorkerKey, held: _Held) -> None:
        shared, held.shared = held.shared, None
        if shared is not None:
            await self._pool.release(key, shared)


def _is_outdated(error: Exception | None) -> bool:
    """Return whether the error claims that the node is not READY.

    Such an error is outdated, because the caller has seen that the node is READY.
    """
    return isinstance(error, WrongState)


def _waits(key: WorkerKey) -> TpuError:
    return WorkerUnreachable(
        Text(
            "Worker {worker_id} of {node} is not connected yet: other workers are connecting first.",
            worker_id=key.worker_id,
            node=key.node.node_id,
        )
    )


def _silent(key: WorkerKey, wait_s: float, *, is_up: bool) -> TpuError:
    if not is_up:
        return WorkerUnreachable(
            Text("Still connecting to worker {worker_id} of {node}.", worker_id=key.worker_id, node=key.node.node_id),
            hint="Try again in a few seconds.",
        )
    return WorkerUnreachable(
        Text(
            "The agent on worker {worker_id} of {node} did not respond within {seconds} s.",
            worker_id=key.worker_id,
            node=key.node.node_id,
            seconds=f"{wait_s:g}",
        )
    )
