"""Switch this server to the emulated cloud and back.

The user's own cloud stays open: kernels, budgets and auto-stop of real nodes continue as before.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from jupyter_core.utils import ensure_async

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import TpuError
from jupyter_tpu.kernels.provisioner import TPUProvisioner
from jupyter_tpu.server.served_cloud import ServedCloud
from jupyter_tpu.setup.trial import forget_trial, remember_trial, trial_cloud


class TrialSwitch:
    """The emulated cloud of this server during a trial.

    Args:
        serve: a function that creates a `ServedCloud` from settings.
        kernels: Jupyter's kernel manager.
        log: a logger.
    """

    def __init__(self, serve: Callable[[CloudSettings], ServedCloud], kernels: Any, log: Any) -> None:
        self._serve = serve
        self._kernels = kernels
        self.log = log
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self.served: ServedCloud | None = None
        self._endpoint = ""
        self._resuming: asyncio.Task[None] | None = None

    def resume(self) -> None:
        """In the background, start the emulated cloud that an earlier server used. `settled` waits for it."""
        self._resuming = asyncio.get_running_loop().create_task(self._resume())

    async def _resume(self) -> None:
        try:
            await self.start()
        except TpuError as error:
            self.log.warning("The emulated cloud was not started again: %s", error)
        except Exception:  # continue with the user's own cloud
            self.log.exception("The emulated cloud was not started again.")

    async def settled(self) -> None:
        """Wait until `resume` has finished: the emulated cloud is in use again, or its start has failed."""
        if self._resuming is not None:
            await asyncio.wait([self._resuming])

    async def start(self) -> None:
        """Start the emulated cloud and use it; no effect if it is already in use.

        Raises:
            TpuError: the emulated cloud did not start; nothing has changed.
        """
        async with self._lock:
            if self.served is not None:
                return
            async with AsyncExitStack() as stack:
                cloud = await stack.enter_async_context(trial_cloud(os.environ))
                served = self._serve(cloud.settings)
                stack.push_async_callback(served.close)
                served.start()
                await served.fleet.get()
                stack.push_async_callback(self._shut_kernels_down, cloud.endpoint)
                self._stack = stack.pop_all()
            self.served, self._endpoint = served, cloud.endpoint

    async def stop(self) -> None:
        """Shut down the kernels on emulated nodes and stop the emulated cloud; keep its nodes for the next trial."""
        async with self._lock:
            is_used, self.served = self.served is not None, None
            await self._stack.aclose()
            if is_used:  # otherwise another server may be using the trial
                await asyncio.to_thread(forget_trial)

    async def close(self) -> None:
        """Stop the emulated cloud when the server stops. The next server starts it again."""
        is_used = self.served is not None
        if self._resuming is not None and not self._resuming.done():
            is_used = self._resuming.cancel()
            await asyncio.wait([self._resuming])
        await self.stop()
        if is_used:
            await asyncio.to_thread(remember_trial)

    async def _shut_kernels_down(self, endpoint: str) -> None:
        ours = [each for each in self._kernels.list_kernel_ids() if self._is_of(each, endpoint)]
        await asyncio.gather(*map(self._shut_down, ours))

    def _is_of(self, kernel_id: str, endpoint: str) -> bool:
        provisioner = getattr(self._kernels.get_kernel(kernel_id), "provisioner", None)
        return isinstance(provisioner, TPUProvisioner) and provisioner.endpoint == endpoint

    async def _shut_down(self, kernel_id: str) -> None:
        try:
            await ensure_async(self._kernels.shutdown_kernel(kernel_id, now=True))
        except (TpuError, KeyError, RuntimeError) as error:  # the kernel is lost with its node anyway
            self.log.info("the kernel %s was not shut down: %s", kernel_id, error)
