"""A cloud that this server uses: its fleet, the kernelspecs of its nodes, and the open connections to them.

A server has the user's own cloud and, during a trial, an emulated cloud. Each has its own fleet, kernelspecs and
connections, so that budgets and auto-stop rules of real nodes keep working while the panel shows the emulated cloud.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from jupyter_tpu.cloud.emulator_address import emulator_address, emulator_authorization
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import TpuError
from jupyter_tpu.fleet import FleetChange
from jupyter_tpu.fleet.assembly import OpenFleet, open_fleet
from jupyter_tpu.kernels.agents.open_links import LinkedAgents
from jupyter_tpu.kernels.connections.ready_links import ReadyLinks, workers_to_hold
from jupyter_tpu.lifecycle.time_limits import Limits
from jupyter_tpu.models import NodeName
from jupyter_tpu.server.emulator_client import EmulatorClient
from jupyter_tpu.server.kernelspec_sync import KernelspecSync, usable_nodes
from jupyter_tpu.server.lazy_fleet import LazyFleet
from jupyter_tpu.server.websocket.kernel_socket import open_pages
from jupyter_tpu.server.websocket.serial import SerialExecutor
from jupyter_tpu.server.websocket.terminal_socket import open_terminals


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAccess:
    """Settings for access to nodes; the traits of `server.app.TPUApp` with the same names describe them."""

    ssh_user: str = ""
    proxy_command: str = ""
    write_kernelspecs: bool = True
    connect_ahead: bool = True
    unsure_s: float = Limits().unsure_s


def _pages(node: NodeName, endpoint: str) -> int:
    return open_pages(node, endpoint) + open_terminals(node, endpoint)


class ServedCloud:
    """A cloud that this server uses.

    Args:
        settings: a function that returns the cloud's settings; called each time the fleet is opened.
        access: settings for access to its nodes.
        emit: called with each change after the kernelspecs have been updated, because front ends then read both nodes
            and kernelspecs.
        log: a logger.
    """

    def __init__(
        self, settings: Callable[[], CloudSettings], access: NodeAccess, emit: Callable[[FleetChange], None], log: Any
    ) -> None:
        self._settings = settings
        self._access = access
        self._emit = emit
        self.log = log
        self.fleet = LazyFleet(self._open)
        self.kernelspecs = KernelspecSync(
            enabled=access.write_kernelspecs, proxy_command=access.proxy_command, ssh_user=access.ssh_user
        )
        self.caches: dict[str, Any] = {}
        self._links = ReadyLinks()
        self._changes = SerialExecutor(self._handle_change, log)
        self._runner: asyncio.Task[None] | None = None

    def settings_or_none(self) -> CloudSettings:
        """Return the cloud's settings, or empty settings if they are invalid."""
        try:
            return self._settings()
        except TpuError:
            return CloudSettings()

    @property
    def emulator(self) -> EmulatorClient | None:
        """The client of the emulated cloud's control API, or None if this is another cloud."""
        address = emulator_address(self.settings_or_none(), os.environ)
        return EmulatorClient(address, partial(emulator_authorization, os.environ)) if address else None

    async def status(self) -> tuple[CloudSettings, TpuError | None]:
        """Return the settings, with the project filled in if possible, and why the cloud can't be reached."""
        try:
            opened = await self.fleet.get()
        except TpuError as failure:
            return self.settings_or_none(), failure
        return opened.settings, opened.fleet.snapshot().error

    def start(self) -> None:
        """Start processing changes in the fleet; call this when the event loop is running."""
        self._runner = asyncio.get_running_loop().create_task(self._changes.run())

    async def warm_up(self) -> None:
        """Open the fleet, which continues the work of an earlier server."""
        try:
            opened = await self.fleet.get()
        except TpuError as error:
            self.log.warning("Cloud TPU nodes cannot be listed yet: %s", error)
            return
        snapshot = await opened.fleet.refresh()
        # nodes deleted while no server was running cause no change event, so remove their kernelspecs now
        await self.kernelspecs.update(snapshot, opened.settings)
        for notice in snapshot.notices:
            self.log.warning("%s", notice)

    async def refresh(self) -> None:
        """List the nodes now."""
        try:
            await (await self.fleet.get()).fleet.refresh()
        except TpuError as error:
            self.log.debug("The nodes cannot be listed: %s", error)

    async def reopen(self) -> None:
        """Reopen the fleet with changed settings or credentials; open intents remain in the journal and continue.

        The fleet is reopened immediately and not by the next request, because there may be no request while the panel
        shows another cloud, and budgets and auto-stop must continue.
        """
        await self.fleet.reopen()
        self.caches.clear()  # last, because a request may have cached data of the old fleet in the meantime
        try:
            await self.fleet.get()
        except TpuError as error:
            self.log.info("Cloud TPU nodes cannot be listed yet: %s", error)

    async def close(self) -> None:
        """Close the fleet and all connections opened in advance."""
        async with AsyncExitStack() as each:  # close everything in reverse order, even if one of them fails
            each.push_async_callback(self.fleet.close)
            each.push_async_callback(self._links.close)
            each.push_async_callback(self._end_runner)

    async def _end_runner(self) -> None:
        """Cancel the task that processes changes, and wait until it has finished.

        Cancel repeatedly, because libraries may swallow a single cancellation.
        """
        while self._runner and not self._runner.done():
            self._runner.cancel()
            await asyncio.wait([self._runner], timeout=1)

    def _open(self) -> AbstractAsyncContextManager[OpenFleet]:
        settings = self._settings()
        return open_fleet(
            settings,
            ssh_user=self._access.ssh_user,
            on_change=self._changes.put,
            limits=Limits(unsure_s=self._access.unsure_s),
            agents=LinkedAgents(settings.endpoint, lambda node: _pages(node, settings.endpoint)),
        )

    async def _handle_change(self, change: FleetChange) -> None:
        if change.phase == "failed":  # the response was sent long ago, so use the log and the event
            self.log.warning("%s: %r", change.node_name, change.message)
        try:
            opened = await self.fleet.get()
            await self.kernelspecs.update(opened.fleet.snapshot(), opened.settings)
            if self._access.connect_ahead:
                await self._connect_ahead(opened)
        except (TpuError, OSError) as error:
            self.log.warning("The kernelspecs could not be updated: %s", error)
        self._emit(change)

    async def _connect_ahead(self, opened: OpenFleet) -> None:
        workers = await asyncio.to_thread(
            workers_to_hold,
            usable_nodes(opened.fleet.snapshot()),
            opened.settings,
            proxy_command=self._access.proxy_command,
            ssh_user=self._access.ssh_user,
        )
        self._links.follow(workers)
