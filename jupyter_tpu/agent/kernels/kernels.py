"""All kernels of a worker, by id."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

from jupyter_tpu.agent.kernels.kernel import Kernel, Surroundings
from jupyter_tpu.errors import BadInput, KernelFailed, TpuError

log = logging.getLogger(__name__)

# Ids become names of folders.
_KERNEL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Kernels:
    """Starts kernels, finds those that still run, forgets those that are done with.

    `on_output` is called when a record has grown or a kernel was forgotten.
    """

    def __init__(self, surroundings: Surroundings, on_output: Callable[[], None]) -> None:
        self._around = surroundings
        self._on_output = on_output
        self._kernels: dict[str, Kernel] = {}

    def adopt(self) -> None:
        """Find the kernels of an earlier agent. One whose folder is damaged does not keep the others from it."""
        for folder in sorted(self._around.home.kernels.iterdir()):
            try:
                self._adopt_one(folder.name)
            except (OSError, ValueError, KeyError, TpuError) as error:
                log.error("kernel folder %s cannot be used: %s", folder, error)

    def _adopt_one(self, kernel_id: str) -> None:
        kernel = self.get_or_make(kernel_id)
        if kernel.is_stale:
            self._drop(kernel)
        else:
            kernel.adopt()

    def get(self, kernel_id: Any) -> Kernel:
        """The kernel.

        Raises:
            KernelFailed: there is none of this id.
        """
        try:
            return self._kernels[kernel_id]
        except (KeyError, TypeError):
            raise KernelFailed(
                f"The worker knows no kernel {str(kernel_id)[:70]}.",
                exists="It was shut down, or the node was recreated since.",
                hint="Start a new kernel.",
            ) from None

    def get_or_make(self, kernel_id: Any) -> Kernel:
        """The kernel, made without a process when it is new. Never awaits: what follows on the wire finds it.

        Raises:
            BadInput: the id breaks the rule for ids.
        """
        if not isinstance(kernel_id, str) or not _KERNEL_ID.fullmatch(kernel_id):
            raise BadInput(
                f"{str(kernel_id)[:70]!r} is not a kernel id.", hint="Use up to 64 letters, digits, dots and hyphens."
            )
        return self._kernels.get(kernel_id) or self._make(kernel_id)

    def _make(self, kernel_id: str) -> Kernel:
        kernel = Kernel(kernel_id, self._around, self._on_output)
        self._kernels[kernel_id] = kernel
        return kernel

    async def launch(self, kernel_id: Any, start: Callable[[Kernel], Awaitable[None]]) -> Kernel:
        """Start a kernel; one that is forgotten just then is made anew."""
        while True:
            kernel = self.get_or_make(kernel_id)
            await start(kernel)
            if not kernel.is_closed or self._kernels.get(kernel.kernel_id) is kernel:
                return kernel

    async def forget(self, kernel_id: Any, owner: str = "") -> None:
        """End a kernel and remove everything that is kept of it, unless another owner has started it since."""
        kernel = self.get(kernel_id)
        if await kernel.kill(owner) and not kernel.is_closed:
            self._drop(kernel)
            self._on_output()

    def _drop(self, kernel: Kernel) -> None:
        del self._kernels[kernel.kernel_id]
        kernel.close()
        kernel.remove()

    async def drop_unborn(self, kernel: Kernel) -> None:
        """Forget a kernel that never had a process."""
        if not kernel.was_born and kernel.kernel_id in self._kernels:
            await self.forget(kernel.kernel_id)

    def all(self) -> list[Kernel]:
        """Those that live and those that have ended and are kept."""
        return list(self._kernels.values())

    @property
    def are_quiet(self) -> bool:
        """Whether none is at work or about to be."""
        return all(kernel.execution_state in ("idle", "dead") for kernel in self._kernels.values())

    @property
    def are_whole(self) -> bool:
        """Whether nobody has removed the folder of one, or that of all."""
        return self._around.home.kernels.is_dir() and all(kernel.is_whole for kernel in self._kernels.values())

    def restore(self) -> None:
        """Restore what somebody has removed; raises OSError or AgentBroken where that is not possible."""
        for kernel in self._kernels.values():
            kernel.restore()

    def tell(self, words: str) -> None:
        """Tell the users of all that live."""
        for kernel in self._kernels.values():
            if kernel.is_alive:
                kernel.event("words", message=words)

    def describe(self) -> list[dict[str, Any]]:
        return [kernel.describe() for kernel in self._kernels.values()]

    def close(self) -> None:
        """Let go of all kernels, which go on."""
        for kernel in self._kernels.values():
            kernel.close()
