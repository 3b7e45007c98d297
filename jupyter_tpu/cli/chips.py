"""Asks the agents of a node's workers about their chips, for the commands that do, and words for what they say."""

from __future__ import annotations

import argparse
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.terminal import plain
from jupyter_tpu.errors import BadInput, WrongState
from jupyter_tpu.metrics import Holder

if TYPE_CHECKING:
    from jupyter_tpu.kernels.metrics_links import Answer
    from jupyter_tpu.models import Node

PATIENCE_S = 60.0


class NodeChips:
    """The workers of one node, over links of our own."""

    def __init__(self, node: Node, endpoint: str) -> None:
        from jupyter_tpu.kernels.asking import workers_of
        from jupyter_tpu.kernels.metrics_links import WorkerLooks

        self.node = node
        self._keys = workers_of(node, endpoint)
        self._looks = WorkerLooks()

    async def ask(self, method: str, params: Mapping[str, Any], patience_s: float | None = PATIENCE_S) -> list[Answer]:
        """What all workers say; one that does not says why."""
        return await self._looks.look(self._keys, method, params, patience_s=patience_s)

    async def ask_worker(self, worker_id: int, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """What one worker says.

        Raises:
            BadInput: there is no such worker.
            TpuError: it does not answer, or refuses.
        """
        if not 0 <= worker_id < len(self._keys):
            raise BadInput(f"{self.node.name.node_id} has no worker {worker_id}; it has {len(self._keys)}.")
        (answer,) = await self._looks.look([self._keys[worker_id]], method, params, patience_s=PATIENCE_S)
        if answer.said is None or answer.error is not None:
            raise answer.error or BadInput(f"Worker {worker_id} did not answer.")
        return answer.said

    async def close(self) -> None:
        await self._looks.close()


@asynccontextmanager
async def node_chips(options: argparse.Namespace) -> AsyncIterator[NodeChips]:
    """Of the READY node that is meant.

    Raises:
        WrongState: it is not READY.
        TpuError: it cannot be found.
    """
    from jupyter_tpu.cli.finding import find_node
    from jupyter_tpu.fleet.opening import open_cloud

    settings = cloud_settings(options)
    async with open_cloud(settings) as cloud:
        node = await find_node(cloud, options.node, options.zone)
    if node.state != "READY":
        raise WrongState(f"The node {node.name.node_id} is {node.state}, not READY.", exists="Nothing runs on it.")
    chips = NodeChips(node, settings.endpoint)
    try:
        yield chips
    finally:
        await chips.close()


def holder_text(holder: Holder) -> str:
    """``process 71 of me, the kernel of a.ipynb (python train.py), since 12:03``."""
    kernel = f"of {holder.notebook}" if holder.notebook else holder.kernel_id
    whose = f", the kernel {kernel}" if kernel else ""
    since = "" if holder.since is None else f", since {moment_text(holder.since)}"
    user = f" of {holder.user}" if holder.user else ""
    command = f" ({holder.command[:80]})" if holder.command else ""
    return plain(f"process {holder.pid}{user}{whose}{command}{since}")


def moment_text(at: float) -> str:
    """``2026-11-20 12:03``, here."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
