"""Which ports the endpoints get: those asked for, else those of the last run on the same state, else any free ones.

Clients write an endpoint down as the name of a cloud, so it should outlive a restart.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

from jupyter_tpu.emulator.store.database import Store

LOOPBACK = "127.0.0.1"
_GRPC, _REST = "grpc_port", "rest_port"


class PortUnusable(Exception):
    """A port that was asked for cannot be listened on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The two ports of an emulator; 0 stands for any free one."""

    grpc: int
    rest: int


def kept_ports(store: Store) -> Ports:
    """Those of the last run."""
    return Ports(grpc=int(store.fact(_GRPC) or 0), rest=int(store.fact(_REST) or 0))


def keep_ports(store: Store, ports: Ports) -> None:
    """Have the next run use them again."""
    with store.transaction():
        store.save_fact(_GRPC, str(ports.grpc))
        store.save_fact(_REST, str(ports.rest))


def chosen_ports(asked: Ports, kept: Ports) -> Ports:
    """Where to listen.

    Raises:
        PortUnusable: a port that was asked for is taken.
    """
    for port in (asked.grpc, asked.rest):
        _try(port)
    spoken_for = {asked.grpc, asked.rest}
    return Ports(grpc=asked.grpc or _again(kept.grpc, spoken_for), rest=asked.rest or _again(kept.rest, spoken_for))


def _again(kept: int, spoken_for: set[int]) -> int:
    """The kept port if it is free now."""
    try:
        _try(kept)
    except PortUnusable:
        return 0
    return 0 if kept in spoken_for else kept


def _try(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # as the servers do, so that connections which a last run left behind do not count
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise PortUnusable(f"port {port}: {str(error.strerror).lower()}") from error
