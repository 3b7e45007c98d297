"""The agent's methods for its worker's chips: ``metrics``, ``who`` and ``free``."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any

from jupyter_tpu.agent.devices.holders import Holders
from jupyter_tpu.agent.devices.holders import Kernels as Notebooks
from jupyter_tpu.agent.devices.release import ChipRelease
from jupyter_tpu.agent.kernels.kernel import Kernel
from jupyter_tpu.agent.kernels.kernels import Kernels
from jupyter_tpu.agent.metrics.sampler import INTERVAL_S, Sampler
from jupyter_tpu.errors import BadInput
from jupyter_tpu.worker_clock import boot_clock, booted_at, wall_clock

# Longest history in seconds that a client can request. The sampler stores one hour.
_LONGEST_HISTORY_S = 3600
# Bounds the response: each series has at most this many points.
_MOST_POINTS = 600
_LOCK_UNSEEN = "libtpu's lock is held by a process that cannot be seen from here, such as one in a container"


class Metrics:
    """Metrics and TPU processes of this worker.

    Args:
        python: the default Python for kernels; metrics are read with libtpu's SDK in this Python.
        notebooks: returns the notebook of each process that runs cells.
    """

    def __init__(self, kernels: Kernels, python: str, notebooks: Callable[[], Notebooks]) -> None:
        self._kernels = kernels
        self._python = python
        self._holders = Holders(os.environ, notebooks)
        self._sampler = Sampler(os.environ, self._holders, self._python_of)
        self._freeing = ChipRelease(self._holders, self._kernel_of)

    async def run(self) -> None:
        """Take samples until cancelled."""
        await self._sampler.run()

    @property
    def methods(self) -> Mapping[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]]:
        """The RPC methods by name."""
        return {"metrics": self.metrics, "who": self.who, "free": self._freeing.release}

    async def metrics(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the newest sample and, with ``history_s``, a history of that many seconds in ``points`` points.

        Raises:
            BadInput: a parameter is not valid.
        """
        history_s = _whole(params, "history_s", 0, _LONGEST_HISTORY_S, 0)
        points = _whole(params, "points", 1, _MOST_POINTS, _MOST_POINTS)
        sample = await self._sampler.newest()
        history = None
        if history_s:
            step_s = max(INTERVAL_S, history_s / points)
            # Downsample a copy in a thread: an hour of data for 64 cores takes a while, and sampling must continue.
            samples = self._sampler.history.copy()
            history = await asyncio.to_thread(samples.history, boot_clock() - history_s, step_s, points)
            history["at"] = [booted_at() + at for at in history["at"]]
        return {
            "worker": {"hostname": socket.gethostname(), "accelerator_type": self._sampler.accelerator_type},
            "now": wall_clock(),
            "interval_s": INTERVAL_S,
            "sample": sample.to_json(),
            "history": history,
        }

    async def who(self, _params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the TPU processes and the state of libtpu's lock."""
        holders = await asyncio.to_thread(self._holders.scan)
        # If no visible process holds the lock, this explains why a TPU looks free but can't be used.
        lock = await asyncio.to_thread(self._holders.lock_file)
        return {
            "holders": [asdict(holder) for holder in holders],
            "lock_file": {"path": lock.path, "is_held": lock.is_held, "is_there": lock.is_there},
            "reason": _LOCK_UNSEEN if lock.is_held and not holders else "",
        }

    def _kernel_of(self, pid: int) -> Kernel | None:
        return next((kernel for kernel in self._kernels.all() if kernel.pid == pid), None)

    def _python_of(self, kernel_id: str) -> str:
        kernel = next((kernel for kernel in self._kernels.all() if kernel.kernel_id == kernel_id), None)
        return (kernel.python if kernel else "") or self._python


def _whole(params: Mapping[str, Any], name: str, least: int, most: int, default: int) -> int:
    value = params.get(name, default)
    if type(value) not in (int, float) or not least <= value <= most:
        raise BadInput(f"The field '{name}' must be a number from {least} to {most}.")
    return int(value)
