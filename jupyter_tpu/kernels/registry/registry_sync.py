"""Keeps the note of one kernel in step with what this process knows of it: on this machine's disk, and with the agent.

The note on the disk lets the next server give the kernel back; the agent's tells other machines, and whoever asks on
the node, whose kernel this is. Neither may ever keep a kernel from running.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from jupyter_tpu.errors import TpuError
from jupyter_tpu.kernels.registry.notes import KernelRegistry, RegisteredKernel

log = logging.getLogger(__name__)

TellAgent = Callable[[Mapping[str, Any]], Awaitable[Any]]


class RegistrySync:
    """The note of one kernel.

    Args:
        tell_agent: gives the agent its note; may wait for the link as long as it likes, and fail with a `TpuError`.
    """

    def __init__(self, tell_agent: TellAgent) -> None:
        self._tell_agent = tell_agent
        self._notes = KernelRegistry()
        self._note: RegisteredKernel | None = None
        self._is_on_disk = False
        self._changing = asyncio.Lock()
        self._telling: asyncio.Task[None] | None = None

    @property
    def note(self) -> RegisteredKernel | None:
        """What is on the disk; None when there is nothing, or the disk did not take it."""
        return self._note if self._is_on_disk else None

    def found(self, note: RegisteredKernel) -> None:
        """The note was there already."""
        self._note, self._is_on_disk = note, True

    async def write(self, note: RegisteredKernel) -> None:
        """Write the note; the log says so if that fails, and the kernel is then one that ends with its server."""
        async with self._changing:
            self._note = note
            await self._write(note)

    async def write_again(self) -> None:
        """Write the note that was removed: the kernel has been started once more."""
        async with self._changing:
            if self._note and not self._is_on_disk:
                await self._write(self._note)

    async def change(self, change: Callable[[RegisteredKernel], RegisteredKernel]) -> None:
        """Change the note, if there is one, here and with the agent."""
        async with self._changing:
            if self._note and (changed := change(self._note)) != self._note:
                self._note = changed
                if self._is_on_disk:
                    await self._write(changed)
                    self.tell()

    async def remove(self) -> None:
        """The kernel has ended: nobody is to look for it."""
        self.close()
        async with self._changing:
            if self._note and self._is_on_disk:
                self._is_on_disk = False
                await asyncio.to_thread(self._notes.remove, self._note.kernel_id)

    async def end(self) -> None:
        """The kernel was ended, but its node has not heard of it: if it never does, the next server tells it."""
        self.close()
        async with self._changing:
            if self._note and self._is_on_disk:
                await self._write(replace(self._note, is_ended=True))
                self._is_on_disk = False

    def tell(self) -> None:
        """Tell the agent what it has to know, in the background."""
        self.close()
        if self._note:
            self._telling = asyncio.create_task(self._tell(_for_agent(self._note)))

    def close(self) -> None:
        """Tell nothing more; the note stays as it is."""
        if self._telling:
            self._telling.cancel()
            self._telling = None

    async def _write(self, note: RegisteredKernel) -> None:
        try:
            await asyncio.to_thread(self._notes.write, note)
            self._is_on_disk = True
        except (OSError, TpuError, ValueError) as error:
            log.warning(
                "The kernel %s cannot be noted on this machine (%s): if this server is killed, the next one will not "
                "find it. `jupyter tpu kernels` will.",
                note.kernel_id,
                error,
            )

    async def _tell(self, note: Mapping[str, Any]) -> None:
        try:
            await self._tell_agent(note)
        except TpuError as error:
            log.info("the agent was not told whose kernel it has: %s", error)


def _for_agent(note: RegisteredKernel) -> dict[str, Any]:
    """What anybody on the node may read: no keys."""
    return {
        "kernel_name": note.kernel_name,
        "host": socket.gethostname(),
        "root_dir": note.root_dir,
        "sessions": [{"path": each.path, "name": each.name, "type": each.type} for each in note.sessions[:20]],
    }
