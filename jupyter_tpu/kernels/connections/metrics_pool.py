"""Links to all workers of the nodes that somebody looks at, kept while they do.

A link that a kernel or somebody else has open is used; others are opened here, a few at a time, and let go a while
after the last look. Nothing is created or started for a look, and it never waits long: a worker that does not answer
shows what it said last, and why it does not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jupyter_tpu.errors import TpuError, WorkerUnreachable, WrongState
from jupyter_tpu.kernels.connections.pool import LinkPool, WorkerLink, link_thread
from jupyter_tpu.kernels.connections.worker import WorkerKey

KEPT_S = 60.0
"""How long a link is held after the last look."""

_ANSWER_S = 1.5
_OPENING_S = 0.3
_OPENED_AT_ONCE = 8
_LOST_AGAIN_AFTER_S = 30.0


_Key = tuple[str, tuple[WorkerKey, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the agent of a worker has said.

    Attributes:
        said: its last answer; None before the first.
        at: when that came, in Unix seconds.
        error: why it is not one of now.
    """

    worker_id: int
    said: Mapping[str, Any] | None = None
    at: float | None = None
    error: TpuError | None = None


class WorkerLooks:
    """Asks the agents of nodes' workers. Used from one event loop; what it holds lives in the thread of the links."""

    def __init__(self) -> None:
        self._nodes: dict[_Key, _Node] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def look(
        self,
        keys: Collection[WorkerKey],
        method: str,
        params: Mapping[str, Any],
        *,
        uid: str = "",
        patience_s: float | None = None,
    ) -> list[Answer]:
        """The answers of all workers of one node, in their order.

        Args:
            uid: of the node: what another one of its name has said before is not its.
            patience_s: how long each may take to be reached and to answer; None: a moment, for who will ask again.
        """
        if not keys:
            return []
        node = self._held((uid, tuple(keys)))
        return await link_thread.run(node.look(method, params, patience_s))

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
        """Let go of all links."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@dataclass
class _Held:
    """Our share in a link to one worker, and what was heard over any."""

    shared: WorkerLink | None = None
    last: Answer = field(default_factory=lambda: Answer(worker_id=0))
    lost_at: float = -_LOST_AGAIN_AFTER_S
    loss: TpuError | None = None


class _Node:
    """The workers of one node. All but `touch` in the thread of the links."""

    def __init__(self, pool: LinkPool, keys: tuple[WorkerKey, ...]) -> None:
        self._pool = pool
        self._held = {key: _Held(last=Answer(worker_id=key.worker_id)) for key in keys}
        self._looked_at = time.monotonic()
        self._is_over = False

    def touch(self) -> bool:
        """Somebody looks: hold on. False when it is too late for that."""
        self._looked_at = time.monotonic()
        return not self._is_over

    async def hold(self) -> None:
        """Until nobody has looked for a while, or cancelled."""
        try:
            while (left_s := self._looked_at + KEPT_S - time.monotonic()) > 0:  # noqa: ASYNC110 - each look moves it
                await asyncio.sleep(left_s)
        finally:
            self._is_over = True
            await asyncio.gather(*(self._let_go(key, held) for key, held in self._held.items()))

    async def look(self, method: str, params: Mapping[str, Any], patience_s: float | None) -> list[Answer]:
        self._open_some()
        looks = (self._look_at(key, held, method, params, patience_s) for key, held in self._held.items())
        return list(await asyncio.gather(*looks))

    def _open_some(self) -> None:
        missing = [key for key, held in self._held.items() if held.shared is None and not self._up(key)]
        now = time.monotonic()
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

    async def _look_at(
        self, key: WorkerKey, held: _Held, method: str, params: Mapping[str, Any], patience_s: float | None
    ) -> Answer:
        shared = self._up(key) or held.shared
        if shared is None:
            return replace(held.last, error=held.loss or _waits(key))
        wait_s = patience_s or (_ANSWER_S if shared.link.is_up else _OPENING_S)
        try:
            async with asyncio.timeout(wait_s):
                said = await shared.link.call(method, params)
        except TimeoutError:
            error = None if _is_outdated(shared.link.error) else shared.link.error
            return replace(held.last, error=error or _silent(key, wait_s, is_up=shared.link.is_up))
        except TpuError as error:
            if shared is held.shared and shared.link.state == "lost":
                held.lost_at, held.loss = time.monotonic(), error
                await self._let_go(key, held)
            return replace(held.last, error=error)
        held.loss = None
        answer = Answer(worker_id=key.worker_id, said=said, at=time.time())
        if method == "metrics":
            held.last = answer
        return answer

    async def _let_go(self, key: WorkerKey, held: _Held) -> None:
        shared, held.shared = held.shared, None
        if shared is not None:
            await self._pool.release(key, shared)


def _is_outdated(error: Exception | None) -> bool:
    """Whether it says that the node is not READY: who looks has seen it READY, so it was started again since."""
    return isinstance(error, WrongState)


def _waits(key: WorkerKey) -> TpuError:
    return WorkerUnreachable(f"The link to worker {key.worker_id} of {key.node.node_id} is opened after those before.")


def _silent(key: WorkerKey, wait_s: float, *, is_up: bool) -> TpuError:
    name = f"worker {key.worker_id} of {key.node.node_id}"
    if not is_up:
        return WorkerUnreachable(f"The link to {name} is being opened.", hint="Look again in a few seconds.")
    return WorkerUnreachable(f"The agent on {name} did not answer within {wait_s:g} s.")
