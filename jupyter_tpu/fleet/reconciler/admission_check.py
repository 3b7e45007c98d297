"""Checks before sending a request that costs money: budgets and the SSH key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from jupyter_tpu.models import NodeName, NodeSpec


class AdmissionCheck(Protocol):
    """A check that the fleet calls before it saves an intent that costs money."""

    @property
    def notices(self) -> Sequence[str]:
        """Return notices to show to the user after the checks, one sentence each."""

    async def check_create(self, spec: NodeSpec, *, accept_unknown_price: bool) -> None:
        """Check whether a node with these properties may be requested.

        Raises:
            TpuError: the node may not be requested; the error contains the reason and what to do.
        """

    async def check_start(self, name: NodeName) -> None:
        """Check whether this stopped node may be started; raises the same errors as `check_create`."""
