"""The interface through which the fleet calls agents on nodes; `jupyter_tpu.kernels.agents` implements it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from jupyter_tpu.models import Node, NodeName


class Agents(Protocol):
    """Calls to agents over the open links of this process."""

    async def call(self, node: NodeName, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Call a method of the agent on the node's first worker; return None if there is no open link to it.

        Raises:
            BadInput: the agent is too old to have the method, or it rejects `params`.
            TpuError: the call failed.
        """

    def was_reached(self, node: Node) -> bool:
        """Whether this computer has ever connected to the node."""
