"""Call agents for auto-stop over links that are already open in this process; auto-stop must not open new links.

Processes without open links can use `WorkerAgents`, which opens a link for each call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.journal.paths import data_dir
from jupyter_tpu.kernels.agents.agent_calls import call_agent, workers_with_kernels
from jupyter_tpu.kernels.connections.known_addresses import KnownAddresses
from jupyter_tpu.kernels.connections.pool import LinkPool, link_thread
from jupyter_tpu.kernels.connections.worker import host_key_alias
from jupyter_tpu.models import Node, NodeName


class LinkedAgents:
    """Calls the agent on the first worker of each node in one cloud, over open links only.

    Args:
        endpoint: the cloud's endpoint; see `CloudSettings`.
        pages: returns the number of open pages that show kernels of a node. Each ``activity`` call sends this number,
            because a server stays connected to its kernels even when no page is open, so the agent cannot count pages.
    """

    def __init__(self, endpoint: str, pages: Callable[[NodeName], int] | None = None) -> None:
        self._endpoint = endpoint
        self._pages = pages

    async def call(self, node: NodeName, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result of `method`, or None if no link to the node is connected.

        Raises:
            TpuError: the agent returns an error.
        """
        if not link_thread.is_used:
            return None
        if method == "activity" and self._pages:
            params = {**params, "pages": self._pages(node)}
        pool = link_thread.enter()
        try:
            # The pool belongs to the link thread's loop, so use its links only there.
            return await link_thread.run(self._call_in_thread(pool, node, method, params))
        finally:
            # If this is the last user of the thread, `leave` waits for the thread to exit, which must not block this
            # loop.
            await asyncio.to_thread(link_thread.leave)

    async def _call_in_thread(
        self, pool: LinkPool, node: NodeName, method: str, params: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        shared = pool.find_up(node, self._endpoint)
        return None if shared is None else await shared.link.call(method, params)

    def was_reached(self, node: Node) -> bool:
        """Return whether any process of this user on this machine has ever connected to the node."""
        return was_reached(node)


class WorkerAgents:
    """Calls agents, each time over a new link. Commands that show a single node use this class."""

    def __init__(self, settings: CloudSettings, nodes: tuple[Node, ...]) -> None:
        self._keys = {key.node: key for key in workers_with_kernels(nodes, settings) if key.worker_id == 0}

    async def call(self, node: NodeName, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result of `method`, or None if the node was not passed to the constructor.

        Raises:
            TpuError: the worker does not respond, or the agent returns an error.
        """
        return await call_agent(self._keys[node], method, params) if node in self._keys else None

    def was_reached(self, node: Node) -> bool:
        """Return whether any process of this user on this machine has ever connected to the node."""
        return was_reached(node)


def was_reached(node: Node) -> bool:
    """Return whether this machine has a saved address of the node's first worker. Reads a few small files."""
    return KnownAddresses(data_dir() / "workers").has(host_key_alias(node, 0))
