"""The door of a worker behind a fault proxy: clients reach the proxy, the proxy reaches the SSH server."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.emulator.access.peers import is_own_connection
from jupyter_tpu.emulator.network_faults.proxy import FaultProxy
from jupyter_tpu.emulator.workers.machine import Door, Machine
from jupyter_tpu.emulator.workers.workers import OpenDoor


class ProxiedDoor:
    """See `machine.Door`; `link` takes the faults."""

    def __init__(self, inner: Door, link: FaultProxy) -> None:
        self._inner = inner
        self.link = link

    @property
    def port(self) -> int:
        return self.link.port

    def keys_changed(self) -> None:
        self._inner.keys_changed()

    async def close(self) -> None:
        await self.link.close()
        await self._inner.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLink:
    """The way to one worker, with the proxy on it."""

    node: str
    worker_id: int
    proxy: FaultProxy

    def to_json(self) -> dict[str, Any]:
        faults = [fault.to_json() for fault in self.proxy.faults()]
        own = {"node": self.node, "worker_id": self.worker_id}
        counts = {"connections": self.proxy.connections, "accepted": self.proxy.accepted}
        return {**own, "port": self.proxy.port, **counts, "round_trips": self.proxy.round_trips, "faults": faults}


def worker_links(node: str, doors: Iterable[Door | None]) -> list[WorkerLink]:
    """Those of a node whose doors have a fault proxy; `doors` in the order of the worker ids."""
    return [
        WorkerLink(node=node, worker_id=worker_id, proxy=door.link)
        for worker_id, door in enumerate(doors)
        if isinstance(door, ProxiedDoor)
    ]


def behind_fault_proxy(open_door: OpenDoor) -> OpenDoor:
    """Opens the same doors, each with a fault proxy at the port that is asked for."""

    async def open_proxied(machine: Machine, port: int) -> ProxiedDoor:
        inner = await open_door(machine, 0)
        link = FaultProxy(("127.0.0.1", inner.port), admit=_is_ours)
        try:
            link.listen(("127.0.0.1", port))
        except OSError:
            await inner.close()
            raise
        return ProxiedDoor(inner, link)

    return open_proxied


def _is_ours(connection: socket.socket) -> bool:
    """The SSH server sees only the proxy, so the question whose connection it is must be asked here."""
    try:
        return is_own_connection(connection.getpeername(), connection.getsockname())
    except OSError:  # it is gone again
        return False
