"""The kernel's tables of TCP sockets, to find out whose process listens on a port; see proc(5)."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_LISTEN = 0x0A  # include/net/tcp_states.h
_TABLES = ("tcp", "tcp6")


@dataclass(frozen=True, slots=True)
class TcpSocket:
    """One socket of this machine.

    Attributes:
        local: its own address, as ``(host, port)``; an IPv4 address that is mapped to IPv6 is given as IPv4.
        remote: the peer's address; port 0 for a listening socket.
        uid: the user whose process has opened the socket; 0 also for a connection that nobody has accepted yet.
        inode: identifies the socket in ``/proc/PID/fd``; 0 for a connection that nobody has accepted yet.
    """

    local: tuple[str, int]
    remote: tuple[str, int]
    is_listening: bool
    uid: int
    inode: int


def read_sockets(folder: Path = Path("/proc/net")) -> Iterator[TcpSocket]:
    """Yield the TCP sockets of this machine."""
    for name in _TABLES:
        with suppress(OSError):  # a machine may have no IPv6
            for line in (folder / name).read_text().splitlines()[1:]:
                fields = line.split()
                yield TcpSocket(
                    local=_address(fields[1]),
                    remote=_address(fields[2]),
                    is_listening=int(fields[3], 16) == _LISTEN,
                    uid=int(fields[7]),
                    inode=int(fields[9]),
                )


def _address(text: str) -> tuple[str, int]:
    """Convert an address such as ``0100007F:1770``: words of 32 bits in the machine's byte order."""
    host, _, port = text.partition(":")
    words = struct.pack(f"={len(host) // 8}I", *(int(host[i : i + 8], 16) for i in range(0, len(host), 8)))
    address = ipaddress.ip_address(words)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), int(port, 16)
