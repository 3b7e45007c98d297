"""How the fleet reaches the agents on nodes; the owner of the links passes it in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from jupyter_tpu.models import Node, NodeName


class Agents(Protocol):
    """The way to the agents that the process has; handed in by whoever has links."""

    async def call(self, node: NodeName, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Ask the agent of the node's first worker; None where there is no link to it now.

        Raises:
            TpuError: it refuses.
        """

    def was_reached(self, node: Node) -> bool:
        """Whether this machine has ever come in to the node."""
