"""Shut down kernels that belong to a single client once that client has been disconnected for too long.

A launcher that a front end starts from a kernelspec's argv shuts down its kernel on exit, but can't do so if the
launcher is killed. So the launcher gives the agent a limit for how long the kernel may run without it. Kernels of a
Jupyter server have no such limit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from jupyter_tpu.agent.clock import this_moment

log = logging.getLogger(__name__)

# How often to check. Each check loops over all kernels, and a kernel may run longer than its limit by up to this
# interval.
_EVERY_S = 1.0


class Owned(Protocol):
    """The attributes and methods of a kernel that `Orphans` needs."""

    kernel_id: str

    @property
    def ends_alone_after_s(self) -> float | None:
        """Maximum seconds that the kernel may be idle without a client, or None for no limit."""

    @property
    def is_alive(self) -> bool:
        """Whether the kernel has a process."""

    @property
    def is_executing(self) -> bool:
        """Whether the user's code is running or queued."""

    def end_because(self, reason: str) -> None:
        """Shut down the kernel, and show the reason to its user."""


class Orphans:
    """A tracker of kernels that are idle without a client.

    Args:
        kernels: returns all kernels.
        has_client: returns whether a client is attached to the kernel with this id.
    """

    def __init__(self, kernels: Callable[[], Iterable[Owned]], has_client: Callable[[str], bool]) -> None:
        self._kernels = kernels
        self._has_client = has_client
        self._alone_since: dict[str, float] = {}

    async def run(self) -> None:
        """Check the kernels every second until cancelled."""
        while True:
            self.end_expired(this_moment().steady)
            await asyncio.sleep(_EVERY_S)

    def end_expired(self, now: float) -> None:
        """Shut down kernels past their time limit; a cell that runs or waits for input counts as a client.

        Args:
            now: seconds on the boot clock.
        """
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
