"""How the fleet reaches the agents on nodes; the package that has the links implements it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from jupyter_tpu.models import Node, NodeName


class Agents(Protocol):
    """Calls to agents, over the links that this process has open."""

    async def call(self, node: NodeName, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Call a method of the agent on the node's first worker; None where there is no link to it now.

        Raises:
            BadInput: the agent is too old to know the method, or rejects `params`.
            TpuError: the call failed.
        """

    def was_reached(self, node: Node) -> bool:
        """Whether this computer has ever connected to the node."""
