"""Call the agents on a node's workers for the chip commands, and format the responses."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.terminal import note, plain
from jupyter_tpu.errors import BadInput, Text, WrongState
from jupyter_tpu.i18n import _
from jupyter_tpu.metrics import Holder

if TYPE_CHECKING:
    from jupyter_tpu.kernels.connections.metrics_pool import Answer
    from jupyter_tpu.models import Node

PATIENCE_S = 60.0
"""Time limit for an agent's response, including the first connection, in seconds: a worker may never respond."""
_SLOW_AFTER_S = 5.0  # without output for longer than this, users think that the command hangs

Found = TypeVar("Found")


class NodeChips:
    """The workers of one node, called over links that this process opens; `close` closes the links."""

    def __init__(self, node: Node, endpoint: str) -> None:
        from jupyter_tpu.kernels.agents.agent_calls import workers_of
        from jupyter_tpu.kernels.connections.metrics_pool import MetricsPool

        self.node = node
        self._keys = workers_of(node, endpoint)
        self._pool = MetricsPool()

    @property
    def worker_ids(self) -> tuple[int, ...]:
        """The numbers of the node's workers."""
        return tuple(key.worker_id for key in self._keys)

    async def call(self, method: str, params: Mapping[str, Any], patience_s: float | None = PATIENCE_S) -> list[Answer]:
        """Call a method of all workers' agents.

        Args:
            method: the agent's method.
            params: its parameters.
            patience_s: seconds to wait for each worker; None to wait only briefly, if the caller will retry.

        Returns:
            One response per worker, or an error for a worker that didn't respond.
        """
        asked = self._pool.call(self._keys, method, params, patience_s=patience_s)
        return await (asked if patience_s is None else notify_if_slow(asked, self._note_waiting))

    async def call_worker(self, worker_id: int, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call a method of one worker's agent and return the response.

        Raises:
            BadInput: there is no such worker.
            TpuError: the worker didn't respond, or refused the call.
        """
        if not 0 <= worker_id < len(self._keys):
            raise BadInput(
                Text(
                    "{node} has no worker {worker}; its workers are 0 to {last}.",
                    node=self.node.name.node_id,
                    worker=worker_id,
                    last=len(self._keys) - 1,
                )
            )
        asked = self._pool.call([self._keys[worker_id]], method, params, patience_s=PATIENCE_S)
        (answer,) = await notify_if_slow(asked, self._note_waiting)
        # after an error, the content is from an earlier response
        if answer.content is None or answer.error is not None:
            raise answer.error or BadInput(Text("Worker {worker} did not respond.", worker=worker_id))
        return answer.content

    def _note_waiting(self) -> None:
        note(
            _(
                "Waiting for the agent on {node}, for up to {seconds} s …",
                node=self.node.name.node_id,
                seconds=f"{PATIENCE_S:.0f}",
            )
        )

    async def close(self) -> None:
        """Close the links."""
        await self._pool.close()


@asynccontextmanager
async def node_chips(options: argparse.Namespace) -> AsyncIterator[NodeChips]:
    """Open connections to the workers of the node that the options name.

    Raises:
        WrongState: the node is not READY.
        TpuError: the node can't be found.
    """
    from jupyter_tpu.cli.nodes.find import find_node
    from jupyter_tpu.fleet.assembly import open_cloud
    from jupyter_tpu.ssh import import_ahead

    settings = cloud_settings(options)
    async with open_cloud(settings) as cloud:
        import_ahead()  # imports asyncssh in a thread during the request to the cloud
        node = await find_node(cloud, options.node, options.zone)
    if node.state != "READY":
        raise WrongState(
            Text("The node {node} is {state}, not READY.", node=node.name.node_id, state=node.state),
            exists="No program is running on the node.",
        )
    chips = NodeChips(node, settings.endpoint)
    try:
        yield chips
    finally:
        await chips.close()


async def notify_if_slow(work: Awaitable[Found], notify: Callable[[], None], after_s: float = _SLOW_AFTER_S) -> Found:
    """Return the result of `work`; call `notify` once if `work` takes longer than `after_s` seconds."""
    timer = asyncio.get_running_loop().call_later(after_s, notify)
    try:
        return await work
    finally:
        timer.cancel()


def holder_text(holder: Holder) -> str:
    """Describe a process: ``process 71 of me, started by the kernel of a.ipynb (python train.py), since 12:03``."""
    whose = _kernel_text(holder)
    since = "" if holder.since is None else _(", since {time}", time=moment_text(holder.since))
    user = _(" of {user}", user=holder.user) if holder.user else ""
    command = f" ({holder.command[:80]})" if holder.command else ""
    return plain(
        _(
            "process {pid}{user}{whose}{command}{since}",
            pid=holder.pid,
            user=user,
            whose=whose,
            command=command,
            since=since,
        )
    )


def _kernel_text(holder: Holder) -> str:
    """Return a phrase that names the process's own kernel or the kernel that started it, or an empty string."""
    if holder.notebook:
        template = Text(", the kernel of {kernel}") if holder.is_kernel else Text(", started by the kernel of {kernel}")
    else:
        template = Text(", the kernel {kernel}") if holder.is_kernel else Text(", started by the kernel {kernel}")
    kernel = holder.notebook or holder.kernel_id
    return _(template, kernel=kernel) if kernel else ""


def moment_text(at: float) -> str:
    """Format a Unix time as ``2026-11-20 12:03`` local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
