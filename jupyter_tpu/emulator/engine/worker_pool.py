"""The engine's interface to the machines of nodes, implemented by `workers.workers`."""

from __future__ import annotations

from typing import Protocol

from jupyter_tpu.emulator.resources.protos import NodePb


class WorkerPool(Protocol):
    """The machines of all nodes."""

    async def start(self, node: NodePb) -> None:
        """Start the node's workers, unless they are running."""

    async def stop(self, node: NodePb) -> None:
        """Kill every process of the node's workers; keep their home folders."""

    async def remove(self, node: NodePb) -> None:
        """Kill every process of the node's workers and remove their home folders."""
