"""Those who may forbid what costs money before it is asked for: the budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from jupyter_tpu.models import NodeName, NodeSpec


class AdmissionCheck(Protocol):
    """Asked by the fleet before anything that costs money is written down."""

    @property
    def notices(self) -> Sequence[str]:
        """What the user should know of it now, one sentence each."""

    async def check_create(self, spec: NodeSpec, *, accept_unknown_price: bool) -> None:
        """Whether such a node may be asked for.

        Raises:
            TpuError: it may not; says why, and what to do.
        """

    async def check_start(self, name: NodeName) -> None:
        """Whether this stopped node may be started; raises as `check_create` does."""
