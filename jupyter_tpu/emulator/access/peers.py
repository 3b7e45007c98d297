"""Find the owner of a connection: workers run as the emulator's user, so other users must not reach the emulator.

A client of the API can give a node a startup script or a key. On a computer with several users, such a client could log
in as another user.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

Address = tuple[str, int]

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
# How many times to read the tables. The kernel returns them in pieces, so a table that changes in the meantime may lack
# a connection.
_ATTEMPTS = 3

# constants and structs of linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h
_SOCK_DIAG, _DIAG_BY_FAMILY, _ERROR, _REQUEST = 4, 20, 2, 1
_HEADER, _QUESTION, _ID = struct.Struct("=IHHII"), struct.Struct("=BBBxI"), struct.Struct("!HH16s16s12s")
_OWNER = struct.Struct("=II")
_OWNER_AT = _HEADER.size + 4 + _ID.size + 12  # the owner follows four bytes, the ID and three counters
_NO_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)


def shows_owners() -> bool:
    """Return whether this system shows the owner of a connection."""
    return sys.platform == "linux"


def is_own_connection(peer: Address, ours: Address) -> bool:
    """Return whether the other end of a loopback connection belongs to this user or to root.

    On Linux, an end whose owner is not found counts as another user's. Other systems don't show owners, so the result
    is True there.
    """
    return not shows_owners() or _owner(peer, ours) in (os.getuid(), 0)


def _owner(peer: Address, ours: Address) -> int | None:
    """Return the user of the socket at `peer` that is connected to `ours`, or None."""
    try:
        return _owner_by_kernel(peer, ours)
    except OSError:  # no such socket, or the kernel lacks this interface: check the tables
        attempts = (owner_in(_lines(), peer, ours) for _ in range(_ATTEMPTS))
        return next((owner for owner in attempts if owner is not None), None)


def _owner_by_kernel(peer: Address, ours: Address) -> int | None:
    """Ask Linux for the owner of this socket, as ``ss`` does. Reading all sockets would be slower. Raises OSError."""
    # use a new socket for each query, so that its response can't belong to another query
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        # query all connection states, because a closing connection has an owner too
        question = _QUESTION.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0xFFFFFFFF)
        question += _ID.pack(peer[1], ours[1], socket.inet_aton(peer[0]), socket.inet_aton(ours[0]), _NO_COOKIE)
        header = _HEADER.pack(_HEADER.size + len(question), _DIAG_BY_FAMILY, _REQUEST, 1, 0)
        kernel.sendto(header + question, (0, 0))
        answer = kernel.recv(4096)
    # the error is a negative errno; ENOENT means no such socket
    if _HEADER.unpack_from(answer)[1] == _ERROR:
        number = -struct.unpack_from("=i", answer, _HEADER.size)[0]
        raise OSError(number, os.strerror(number))
    if len(answer) < _OWNER_AT + _OWNER.size:
        raise OSError(errno.EPROTO, "the kernel's response is too short")
    user, inode = _OWNER.unpack_from(answer, _OWNER_AT)
    # if its process has closed the socket, the kernel shows root instead of the former owner
    return user if inode else None


def _lines() -> list[str]:
    return [line for table in TABLES if table.exists() for line in table.read_text(encoding="ascii").splitlines()]


def owner_in(lines: Iterable[str], peer: Address, ours: Address) -> int | None:
    """Return the id of the user who owns the peer's socket, from the lines of the kernel's socket table.

    The socket has the address `peer` and is connected to `ours`. Returns None if there is no such socket.

    A socket that its process has closed has no inode and is always shown as root's.
    """
    # look up the peer's end of the connection, because we need the owner of that end
    wanted = (_in_table(peer), _in_table(ours))
    for line in lines:
        words = line.split()
        if len(words) < 10 or not (words[7].isdecimal() and words[9].isdecimal()):
            continue
        if (_as_ipv4(words[1]), _as_ipv4(words[2])) == wanted and int(words[9]):
            return int(words[7])
    return None


def _in_table(address: Address) -> str:
    """Format an address as in ``/proc/net/tcp``: ``127.0.0.1``, 8080 → ``0100007F:1F90`` (little-endian)."""
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"


def _as_ipv4(address: str) -> str:
    """Convert an IPv4-mapped IPv6 address to IPv4; return any other address unchanged."""
    host, _, port = address.partition(":")
    return f"{host[24:]}:{port}" if len(host) == 32 and host.startswith("0" * 16) else address
