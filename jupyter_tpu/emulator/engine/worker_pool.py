"""The interface of the engine to the machines behind nodes; `workers.workers` implements it."""

from __future__ import annotations

from typing import Protocol

from jupyter_tpu.emulator.resources.protos import NodePb


class WorkerPool(Protocol):
    """The machines of all nodes."""

    async def start(self, node: NodePb) -> None:
        """Start the node's workers; harmless if they are up."""

    async def stop(self, node: NodePb) -> None:
        """Kill every process of the node's workers; their homes stay."""

    async def remove(self, node: NodePb) -> None:
        """Kill every process of the node's workers and remove their homes."""
