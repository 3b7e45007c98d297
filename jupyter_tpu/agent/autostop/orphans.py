"""Ends kernels that live for one client only, when that client has been gone for long.

A launcher that a front end starts from a kernelspec's argv ends its kernel with itself, unless it is killed. So it says
how long the kernel may be alone. Kernels of a Jupyter server say nothing of the kind, and are not looked at here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from jupyter_tpu.agent.autostop.activity import this_moment

log = logging.getLogger(__name__)

_EVERY_S = 1.0


class Owned(Protocol):
    """What is looked at of a kernel."""

    kernel_id: str

    @property
    def ends_alone_after_s(self) -> float | None: ...

    @property
    def is_alive(self) -> bool: ...

    @property
    def is_executing(self) -> bool: ...

    def end_because(self, reason: str) -> None: ...


class Orphans:
    """Counts how long each kernel has been idle without a client.

    Args:
        kernels: those there are.
        has_client: whether somebody follows the kernel.
    """

    def __init__(self, kernels: Callable[[], Iterable[Owned]], has_client: Callable[[str], bool]) -> None:
        self._kernels = kernels
        self._has_client = has_client
        self._alone_since: dict[str, float] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self.look(this_moment().steady)
            await asyncio.sleep(_EVERY_S)

    def look(self, now: float) -> None:
        """End those whose time is over; a cell that runs, or waits for input, counts as if its client were there."""
        alone: dict[str, float] = {}
        for kernel in self._kernels():
            limit_s = kernel.ends_alone_after_s
            if limit_s is None or not kernel.is_alive or kernel.is_executing or self._has_client(kernel.kernel_id):
                continue
            since = self._alone_since.get(kernel.kernel_id, now)
            if now - since < limit_s:
                alone[kernel.kernel_id] = since
            else:
                reason = f"The kernel was idle without its launcher for {limit_s:.0f} s and was ended."
                log.warning("%s: %s", kernel.kernel_id, reason)
                kernel.end_because(reason)
        self._alone_since = alone
