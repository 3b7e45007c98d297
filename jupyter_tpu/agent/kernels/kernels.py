"""All kernels of a worker, by id."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from jupyter_tpu.agent.kernels.kernel import Kernel, KernelContext
from jupyter_tpu.errors import BadInput, KernelFailed, TpuError

log = logging.getLogger(__name__)

# A valid kernel ID. IDs are also folder names, so they contain no path separators and at most 64 characters.
_KERNEL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
# How long clients wait for kernels to resend messages, and how often to check this. A kernel resends at once, unless it
# is stopped; clients wait 12 s for the agent's hello (`link.handshake`).
_RESENT_WITHIN_S = 5.0
_RESENT_POLL_S = 0.02


def checked_kernel_id(kernel_id: Any) -> str:
    """Return `kernel_id` if it is valid.

    Raises:
        BadInput: the id is not valid.
    """
    if not isinstance(kernel_id, str) or not _KERNEL_ID.fullmatch(kernel_id):
        raise BadInput(
            f"{str(kernel_id)[:70]!r} is not a kernel id.", hint="Use up to 64 letters, digits, dots and hyphens."
        )
    return kernel_id


class Kernels:
    """The worker's kernels, including kernels that an earlier agent started.

    Args:
        on_output: called when a record grows or a kernel is deleted.
    """

    def __init__(self, surroundings: KernelContext, on_output: Callable[[], None]) -> None:
        self._around = surroundings
        self._on_output = on_output
        self._kernels: dict[str, Kernel] = {}

    def adopt(self) -> None:
        """Find an earlier agent's kernels; skip a kernel whose folder is damaged."""
        for folder in sorted(self._around.home.kernels.iterdir()):
            try:
                self._adopt_one(folder.name)
            except (OSError, ValueError, KeyError, TpuError) as error:
                log.error("kernel folder %s cannot be used: %s", folder, error)

    async def until_resent(self) -> None:
        """Wait until the adopted kernels have resent what an earlier agent couldn't write to a full disk.

        Until then, recording a client's request would use up the seqs of these messages, and clients that had already
        received the messages would receive them again with other seqs.
        """
        end = time.monotonic() + _RESENT_WITHIN_S
        # Poll, because any kernel's message or exit may be the last one to wait for.
        while any(each.awaits_resent for each in self.all()) and time.monotonic() < end:  # noqa: ASYNC110 - see above
            await asyncio.sleep(_RESENT_POLL_S)

    def _adopt_one(self, kernel_id: str) -> None:
        kernel = self.get_or_make(kernel_id)
        if kernel.is_stale:
            self._drop(kernel)
        else:
            kernel.adopt()

    def get(self, kernel_id: Any) -> Kernel:
        """Return the kernel with this id.

        Raises:
            KernelFailed: there is no such kernel.
        """
        try:
            return self._kernels[kernel_id]
        except (KeyError, TypeError):
            raise KernelFailed(
                f"There is no kernel {str(kernel_id)[:70]} on the worker.",
                exists="The kernel was shut down, or the node was recreated since then.",
                hint="Start a new kernel.",
            ) from None

    def get_or_make(self, kernel_id: Any) -> Kernel:
        """Return the kernel with this id; if there is none, create a kernel without a process.

        This method never awaits, so that the client's next frames find the kernel.

        Raises:
            BadInput: the id is not valid.
        """
        kernel_id = checked_kernel_id(kernel_id)
        return self._kernels.get(kernel_id) or self._make(kernel_id)

    def _make(self, kernel_id: str) -> Kernel:
        try:
            kernel = Kernel(kernel_id, self._around, self._on_output)
        except OSError:
            self._around.launcher.spares.withdraw()
            raise
        self._kernels[kernel_id] = kernel
        return kernel

    async def launch(self, kernel_id: Any, start: Callable[[Kernel], Awaitable[None]]) -> Kernel:
        """Start a kernel with `start`; if the kernel is deleted meanwhile, create a new one and try again."""
        while True:
            # If the kernel is being deleted, `start` waits and returns without starting it, so try again.
            kernel = self.get_or_make(kernel_id)
            await start(kernel)
            if not kernel.is_closed or self._kernels.get(kernel.kernel_id) is kernel:
                return kernel

    async def forget(self, kernel_id: Any, owner: str = "") -> None:
        """Shut down a kernel and delete all its files, unless another owner has since started it."""
        kernel = self.get(kernel_id)
        # Another call may have deleted the kernel while this one waited for it to exit.
        if await kernel.kill(owner) and not kernel.is_closed:
            self._drop(kernel)
            self._on_output()

    def _drop(self, kernel: Kernel) -> None:
        del self._kernels[kernel.kernel_id]
        kernel.close()
        kernel.remove()

    async def drop_never_started(self, kernel: Kernel) -> None:
        """Delete a kernel that never had a process."""
        if not kernel.had_process and kernel.kernel_id in self._kernels:
            await self.forget(kernel.kernel_id)

    def all(self) -> list[Kernel]:
        """Return all kernels, including those that have exited."""
        return list(self._kernels.values())

    @property
    def are_quiet(self) -> bool:
        """Whether no kernel is busy or starting."""
        return all(kernel.execution_state in ("idle", "dead") for kernel in self._kernels.values())

    @property
    def are_whole(self) -> bool:
        """Whether the folders of all kernels still exist."""
        return self._around.home.kernels.is_dir() and all(kernel.is_whole for kernel in self._kernels.values())

    def restore(self) -> None:
        """Restore removed folders and files; raise OSError or AgentBroken on failure."""
        for kernel in self._kernels.values():
            kernel.restore()

    def notify_users(self, text: str) -> None:
        """Show a message to the users of all running kernels."""
        for kernel in self._kernels.values():
            if kernel.is_alive:
                kernel.event("words", message=text)

    def describe(self) -> list[dict[str, Any]]:
        """Return the state of all kernels for `list_kernels`."""
        return [kernel.describe() for kernel in self._kernels.values()]

    def close(self) -> None:
        """Disconnect from all kernels, which keep running."""
        for kernel in self._kernels.values():
            kernel.close()
