"""Keep the note of one kernel up to date, both on this machine's disk and in the agent.

The note on disk lets the next server take over the kernel. The agent's copy shows the kernel's owner to other machines
and to users on the node. The kernel must keep running even if one of these writes fails.
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

SendToAgent = Callable[[Mapping[str, Any]], Awaitable[Any]]

# our choice of the retry interval: a user frees some disk space within minutes, and the kernel must be recorded soon
# after that
_AGAIN_S = 5.0


class RegistrySync:
    """Keep the note of one kernel up to date on disk and in the agent.

    Args:
        send_to_agent: sends the agent its copy of the note. It may wait for the link without a time limit, and may
            raise a `TpuError`.
    """

    def __init__(self, send_to_agent: SendToAgent) -> None:
        self._send_to_agent = send_to_agent
        self._notes = KernelRegistry()
        self._note: RegisteredKernel | None = None
        self._is_on_disk = False
        self._changing = asyncio.Lock()  # writes run in threads and must reach the disk in order
        self._sending: asyncio.Task[None] | None = None
        # the note that could not be written, and the task that tries again
        self._unwritten: RegisteredKernel | None = None
        self._retrying: asyncio.Task[None] | None = None

    @property
    def note(self) -> RegisteredKernel | None:
        """The kernel's note on disk, or None if it doesn't exist or could not be written."""
        return self._note if self._is_on_disk else None

    def adopt(self, note: RegisteredKernel) -> None:
        """Use a note that is already on disk."""
        self._note, self._is_on_disk = note, True

    async def write(self, note: RegisteredKernel) -> None:
        """Write the note, and retry if this fails: a kernel without a note would shut down with its server."""
        async with self._changing:
            self._note = note
            await self._write(note)

    async def write_unwritten(self) -> None:
        """Write the kernel's note now if an earlier write has failed."""
        async with self._changing:
            if self._unwritten:
                await self._write(self._unwritten)

    async def write_again(self) -> None:
        """Write a removed note again, because the kernel was started again."""
        async with self._changing:
            if self._note and not self._is_on_disk:
                await self._write(self._note)

    async def change(self, change: Callable[[RegisteredKernel], RegisteredKernel]) -> None:
        """Change the kernel's note on disk and in the agent. Do nothing if the kernel has no note."""
        async with self._changing:
            if self._note and (changed := change(self._note)) != self._note:
                self._note = changed
                if self._is_on_disk or self._unwritten:  # otherwise the kernel has been shut down
                    await self._write(changed)
                    self.send_to_agent()

    async def remove(self) -> None:
        """Remove the note, because the kernel was shut down."""
        self._stop_sending()
        async with self._changing:
            self._give_up()
            if self._note and self._is_on_disk:
                self._is_on_disk = False
                await asyncio.to_thread(self._notes.remove, self._note.kernel_id)

    async def mark_ended(self) -> None:
        """Record in the note that the user shut down the kernel while its node was unreachable.

        The next server shuts down the kernel on the node.
        """
        self._stop_sending()
        async with self._changing:
            self._give_up()
            if self._note and self._is_on_disk:
                await self._write(replace(self._note, is_ended=True))
                self._give_up()
                self._is_on_disk = False

    def send_to_agent(self) -> None:
        """Send the agent its copy of the note in the background."""
        self._stop_sending()
        if self._note:
            self._sending = asyncio.create_task(self._send(_for_agent(self._note)))

    def close(self) -> None:
        """Stop sending the note to the agent and writing it to the disk; keep the file as it is."""
        self._stop_sending()
        self._give_up()

    def _stop_sending(self) -> None:
        if self._sending:
            self._sending.cancel()
            self._sending = None

    async def _write(self, note: RegisteredKernel) -> None:
        try:
            await asyncio.to_thread(self._notes.write, note)
            self._is_on_disk, self._unwritten = True, None
        except (OSError, TpuError, ValueError) as error:
            if self._unwritten is None:
                log.warning(
                    "The kernel %s cannot be recorded on this machine (%s): if this server is killed before that "
                    "succeeds, the next one will not find the kernel. `jupyter tpu kernels` will.",
                    note.kernel_id,
                    error,
                )
            self._unwritten = note
            if self._retrying is None or self._retrying.done():
                self._retrying = asyncio.create_task(self._retry())

    async def _retry(self) -> None:
        while self._unwritten:
            await asyncio.sleep(_AGAIN_S)
            await self.write_unwritten()

    def _give_up(self) -> None:
        """Cancel pending writes. If a write may be in progress, the caller must hold the lock."""
        self._unwritten = None
        if self._retrying:
            self._retrying.cancel()
            self._retrying = None

    async def _send(self, note: Mapping[str, Any]) -> None:
        try:
            await self._send_to_agent(note)
        except TpuError as error:
            log.info("the agent does not know whose kernel it has: %s", error)


def _for_agent(note: RegisteredKernel) -> dict[str, Any]:
    """Return the agent's copy of the note, without keys, because other users on the node may read it."""
    return {
        "kernel_name": note.kernel_name,
        "host": socket.gethostname(),
        "root_dir": note.root_dir,
        "sessions": [
            {"path": each.path, "name": each.name, "type": each.type} for each in note.sessions[:20]
        ],  # in practice, there are one or two
    }
