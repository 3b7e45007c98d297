"""A kernel with all that this process keeps for it: local sockets, its share of a link, the kernel behind it.

Lives in the loop of its `LinkPool`. The sockets are there first and last: clients may connect before the kernel is up,
and keep their connections over restarts.
"""

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_tpu.kernels.addresses import Addresses
from jupyter_tpu.kernels.bridge import Bridge, Secrets
from jupyter_tpu.kernels.kernel import Launch, RemoteKernel
from jupyter_tpu.kernels.links import LinkPool, WorkerLink
from jupyter_tpu.kernels.worker import OnProgress, WorkerKey


class HostedKernel:
    """One kernel for one front end; nothing happens before `start`."""

    def __init__(self, key: WorkerKey, pool: LinkPool, addresses: Addresses, secrets: Secrets) -> None:
        self._key = key
        self._pool = pool
        self._addresses = addresses
        self._secrets = secrets
        self._bridge = Bridge(addresses, secrets, pool.context)
        self._shared: WorkerLink | None = None
        self._kernel: RemoteKernel | None = None
        self._changing = asyncio.Lock()

    @property
    def is_started(self) -> bool:
        return self._kernel is not None

    @property
    def kernel(self) -> RemoteKernel:
        """The kernel, once started."""
        assert self._kernel, "not started"
        return self._kernel

    async def start(self, launch: Launch, on_progress: OnProgress) -> None:
        """Bind the sockets, open the link if needed, start the kernel.

        Raises:
            TpuError: that failed; what has been done by then stays until `give_up`.
        """
        async with self._changing:
            self._bridge.open()
            await self._join_worker(on_progress)
            self._tell(on_progress, "Starting the kernel")
            await self.kernel.start(launch)

    async def restart(self, launch: Launch, on_progress: OnProgress) -> None:
        """Start the kernel again, over a new link if the old one is lost."""
        self._bridge.publish()  # a KernelManager removes the names of Unix sockets at every shutdown
        if self._shared is None or self._shared.link.state == "lost":
            from_seq = self.kernel.next_seq
            await self._leave_worker()
            await self._join_worker(on_progress, from_seq)
        self._tell(on_progress, "Starting the kernel again")
        await self.kernel.restart(launch)

    async def close(self) -> None:
        """Give everything back; a kernel that has ended is forgotten by its worker."""
        if self._kernel and self._kernel.exit_code is not None:
            await self._kernel.forget()
        await self._give_back()

    async def give_up(self) -> None:
        """Leave nothing, here or on the worker, however far a start has come; one that is under way ends first."""
        async with self._changing:
            if self._kernel:
                await self._kernel.forget()
            await self._give_back()

    async def _give_back(self) -> None:
        self._bridge.close()
        await self._leave_worker()

    def connection_info(self) -> dict[str, Any]:
        """What jupyter_client wants to know of the sockets."""
        info: dict[str, Any] = {
            "transport": self._addresses.transport,
            "ip": self._addresses.ip,
            "key": self._secrets.key,
            "signature_scheme": self._secrets.signature_scheme,
            **self._addresses.ports,
        }
        if self._secrets.curve:
            info["curve_publickey"], info["curve_secretkey"] = (key.decode() for key in self._secrets.curve)
        return info

    def _tell(self, on_progress: OnProgress, step: str) -> None:
        if self._shared and self._shared.link.state == "live":
            on_progress({"phase": "starting_kernel", "message": step, "fraction": None})
        else:
            on_progress({"phase": "connecting", "message": "Waiting for the link to the worker", "fraction": None})

    async def _join_worker(self, on_progress: OnProgress, from_seq: int = 0) -> None:
        self._shared = await self._pool.acquire(self._key, on_progress)
        self._kernel = RemoteKernel(self._shared.link, self._bridge, on_progress, from_seq=from_seq)
        self._shared.kernels.add(self._kernel)

    async def _leave_worker(self) -> None:
        shared, self._shared = self._shared, None
        if self._kernel:
            self._kernel.close()
        if shared:
            shared.kernels.discard(self.kernel)
            await self._pool.release(self._key, shared)
