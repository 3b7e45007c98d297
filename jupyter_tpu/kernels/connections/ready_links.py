"""Open links in advance, so that the first kernel on a node starts as fast as later kernels.

The first connection to a new node is slow, because it sets up SSH, the worker's environment and the agent. A link that
is opened in advance has completed these steps, and kernels share it. A node that does not accept the user's key yet is
skipped, because viewing a node must not change it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from itertools import chain, repeat
from typing import Any

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import TpuError
from jupyter_tpu.journal.paths import data_dir
from jupyter_tpu.kernels.connections.pool import LinkPool, link_thread
from jupyter_tpu.kernels.connections.worker import WorkerKey, login_of
from jupyter_tpu.models import Node
from jupyter_tpu.ssh import UserKey

log = logging.getLogger(__name__)

_RETRY_DELAYS_S = (2.0, 5.0, 15.0, 30.0)
_PATIENT_DELAY_S = 60.0


def workers_to_hold(
    nodes: Iterable[Node], settings: CloudSettings, *, proxy_command: str = "", ssh_user: str = ""
) -> frozenset[WorkerKey]:
    """Return the first worker of each READY node that accepts the user's key, with its proxy and login name."""
    user_key = UserKey.load_or_create(data_dir() / "ssh")
    return frozenset(
        WorkerKey(node=node.name, endpoint=settings.endpoint, proxy_command=proxy_command, ssh_user=ssh_user)
        for node in nodes
        if node.state == "READY" and login_of(node, user_key)
    )


class ReadyLinks:
    """Keeps links open to a changing set of workers. Use each instance from only one event loop."""

    def __init__(self) -> None:
        self._held: dict[WorkerKey, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def follow(self, workers: Collection[WorkerKey]) -> None:
        """Start opening links to newly added workers, and releasing links to removed workers."""
        for key in self._held.keys() - set(workers):
            self._held.pop(key).cancel()
        for key in set(workers) - self._held.keys():
            self._held[key] = task = asyncio.create_task(_hold(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Release all links. Kernels keep running."""
        self.follow(())
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _hold(key: WorkerKey) -> None:
    """Keep the link open until cancelled. If it can't be opened, try again: auto-stop only uses links that are open.

    A failure is only logged, because the user sees the error when starting a kernel on the worker.
    """
    logged = ""
    for delay_s in chain(_RETRY_DELAYS_S, repeat(_PATIENT_DELAY_S)):
        pool = link_thread.enter()
        try:
            await link_thread.run(_hold_in_thread(pool, key))
        except TpuError as error:
            if str(error) != logged:
                logged = str(error)
                log.warning("The node %s could not be prepared in advance: %s", key.node.node_id, logged)
        finally:
            await asyncio.to_thread(link_thread.leave)
        await asyncio.sleep(delay_s)


async def _hold_in_thread(pool: LinkPool, key: WorkerKey) -> None:
    """Acquire and release the link in the link thread, so that the link is released even after a cancellation."""
    shared = await pool.acquire(key, _log_progress)
    try:
        await asyncio.Event().wait()
    finally:
        await pool.release(key, shared)


def _log_progress(progress: Mapping[str, Any]) -> None:
    log.info("%s", progress.get("message"))
