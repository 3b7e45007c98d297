"""What the engine asks of the machines behind nodes."""

from __future__ import annotations

from typing import Protocol

from jupyter_tpu.emulator.resources.protos import NodePb


class WorkerPool(Protocol):
    """The machines of nodes."""

    async def start(self, node: NodePb) -> None:
        """Bring the node's workers up; harmless when they are."""

    async def stop(self, node: NodePb) -> None:
        """Kill every process of the node's workers; their homes stay."""

    async def remove(self, node: NodePb) -> None:
        """Kill every process of the node's workers and remove their homes."""
