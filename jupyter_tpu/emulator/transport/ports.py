"""Choose the ports of the endpoints: requested ports, else the ports of the last run, else any free ports.

Clients store the endpoint of a cloud, so the ports should stay the same when an emulator is restarted with the same
state folder.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

from jupyter_tpu.emulator.store.database import Store

LOOPBACK = "127.0.0.1"
_GRPC, _REST = "grpc_port", "rest_port"


class PortUnusable(Exception):
    """The emulator can't listen on a requested port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The two ports of an emulator; 0 means any free port."""

    grpc: int
    rest: int


def saved_ports(store: Store) -> Ports:
    """Return the ports of the last run; they are 0 if there was no earlier run."""
    return Ports(grpc=int(store.fact(_GRPC) or 0), rest=int(store.fact(_REST) or 0))


def save_ports(store: Store, ports: Ports) -> None:
    """Store the ports for the next run."""
    with store.transaction():
        store.save_fact(_GRPC, str(ports.grpc))
        store.save_fact(_REST, str(ports.rest))


def chosen_ports(requested: Ports, saved: Ports) -> Ports:
    """Return the ports to listen on.

    Raises:
        PortUnusable: a requested port is in use.
    """
    for port in (requested.grpc, requested.rest):
        # try a requested port at once: better to fail than to listen on another port
        _try(port)
    reserved = {requested.grpc, requested.rest}
    return Ports(
        grpc=requested.grpc or _again(saved.grpc, reserved), rest=requested.rest or _again(saved.rest, reserved)
    )


def _again(saved: int, reserved: set[int]) -> int:
    """Return the port that the previous emulator used if it is free, else 0."""
    try:
        _try(saved)
    except PortUnusable:
        return 0
    return 0 if saved in reserved else saved


def _try(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # set the same option as the servers, so that connections of the last run in TIME_WAIT don't count
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise PortUnusable(f"port {port}: {str(error.strerror).lower()}") from error
