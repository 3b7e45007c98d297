"""Whose connection is it? Workers run as the user of the emulator, so nobody else on this machine may log in to them.

The API on loopback asks nobody who they are, and whoever may use it can put a key into a node's metadata. On a machine
with several users that must not become a login as somebody else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from jupyter_tpu.emulator.behaviours import assumed

_LOOKS = 3
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


@assumed(
    "who-may-log-in",
    "Only connections of the user who runs the emulator, or of root, reach a worker; where the system does not tell "
    "whose they are (no /proc/net/tcp, as on macOS) those of all users of this machine do.",
)
def is_own_connection(peer_port: int, our_port: int) -> bool:
    """Whether the other end of a loopback connection belongs to this user or to root.

    The system gives its tables out piece by piece: one that changes meanwhile may leave a connection out, so who is not
    found is looked for again.
    """
    try:
        return any(is_allowed(_lines(), peer_port, our_port, {os.getuid(), 0}) for _ in range(_LOOKS))
    except OSError:
        return True


def _lines() -> list[str]:
    return [line for table in TABLES if table.exists() for line in table.read_text(encoding="ascii").splitlines()]


def is_allowed(lines: Iterable[str], peer_port: int, our_port: int, users: set[int]) -> bool:
    """The same, from the kernel's tables; a table that does not even show our own end can tell nothing."""
    owners = {ports: user for line in lines if (parsed := _parsed(line)) for ports, user in [parsed]}
    if (our_port, peer_port) not in owners:
        return True
    return owners.get((peer_port, our_port)) in users


def _parsed(line: str) -> tuple[tuple[int, int], int] | None:
    """``sl local:port remote:port st … uid`` → ((local port, remote port), uid)."""
    words = line.split()
    if len(words) < 8 or not words[7].isdecimal():
        return None
    return (_port(words[1]), _port(words[2])), int(words[7])


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
