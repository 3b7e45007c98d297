"""The SSH server of a worker behind a fault proxy: clients connect to the proxy, and the proxy to the server."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.emulator.access.peers import is_own_connection
from jupyter_tpu.emulator.network_faults.fault_proxy import FaultProxy
from jupyter_tpu.emulator.workers.machine import Machine, SshServer
from jupyter_tpu.emulator.workers.workers import StartSshServer


class ProxiedSshServer:
    """A `machine.SshServer` behind a fault proxy; faults are applied to `link`."""

    def __init__(self, inner: SshServer, link: FaultProxy) -> None:
        self._inner = inner
        self.link = link

    @property
    def port(self) -> int:
        """The port of the proxy."""
        return self.link.port

    def keys_changed(self) -> None:
        """Notify the server behind the proxy that the authorised keys have changed."""
        self._inner.keys_changed()

    async def close(self) -> None:
        """Close the proxy, then the server."""
        await self.link.close()
        await self._inner.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLink:
    """The link to one worker, with its proxy."""

    node: str
    worker_id: int
    proxy: FaultProxy

    def to_json(self) -> dict[str, Any]:
        """Return the link in the format of the control API."""
        faults = [fault.to_json() for fault in self.proxy.faults()]
        own = {"node": self.node, "worker_id": self.worker_id}
        counts = {"connections": self.proxy.connections, "accepted": self.proxy.accepted}
        return {**own, "port": self.proxy.port, **counts, "round_trips": self.proxy.round_trips, "faults": faults}


def worker_links(node: str, doors: Iterable[SshServer | None]) -> list[WorkerLink]:
    """Return the links to a node's workers whose SSH servers have a fault proxy, sorted by worker id."""
    return [
        WorkerLink(node=node, worker_id=worker_id, proxy=door.link)
        for worker_id, door in enumerate(doors)
        if isinstance(door, ProxiedSshServer)
    ]


def behind_fault_proxy(open_door: StartSshServer) -> StartSshServer:
    """Return a function that starts SSH servers with the given function, each behind a fault proxy."""

    async def open_proxied(machine: Machine, port: int) -> ProxiedSshServer:
        # use any port, because clients see only the proxy's port
        inner = await open_door(machine, 0)
        # use one proxy per worker, so that links can fail individually
        link = FaultProxy(("127.0.0.1", inner.port), admit=_is_ours)
        try:
            link.listen(("127.0.0.1", port))
        except OSError:
            await inner.close()
            raise
        return ProxiedSshServer(inner, link)

    return open_proxied


def _is_ours(connection: socket.socket) -> bool:
    """Return whether the connection belongs to the emulator's user.

    The SSH server can't check this, because it sees only the proxy.
    """
    try:
        return is_own_connection(connection.getpeername(), connection.getsockname())
    except OSError:  # the socket is already closed
        return False
