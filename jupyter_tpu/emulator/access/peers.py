"""Whose connection is it? Workers run as the user of the emulator, so nobody else on this machine may use it.

Whoever may use the API can give a node a startup script or a key. On a machine with several users that must not become
a login as somebody else.
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
# The system gives its tables out piece by piece: one that changes meanwhile may leave a connection out.
_LOOKS = 3

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
_SOCK_DIAG, _DIAG_BY_FAMILY, _ERROR, _REQUEST = 4, 20, 2, 1
_HEADER, _QUESTION, _ID = struct.Struct("=IHHII"), struct.Struct("=BBBxI"), struct.Struct("!HH16s16s12s")
_OWNER = struct.Struct("=II")
_OWNER_AT = _HEADER.size + 4 + _ID.size + 12  # after four bytes, the id, and three counters
_NO_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)


def can_tell_users() -> bool:
    """Whether this system shows whose a connection is."""
    return sys.platform == "linux"


def is_own_connection(peer: Address, ours: Address) -> bool:
    """Whether the other end of a loopback connection belongs to this user or to root.

    On Linux an end whose owner is not found counts as somebody else's. Other systems do not tell: there it is True.
    """
    return not can_tell_users() or _owner(peer, ours) in (os.getuid(), 0)


def _owner(peer: Address, ours: Address) -> int | None:
    """The user of the socket at `peer` that is connected to `ours`; None when there is none."""
    try:
        return _told_owner(peer, ours)
    except OSError:  # no such socket, or a kernel without this way to ask: the tables say which
        looks = (owner_in(_lines(), peer, ours) for _ in range(_LOOKS))
        return next((owner for owner in looks if owner is not None), None)


def _told_owner(peer: Address, ours: Address) -> int | None:
    """Ask the kernel for this one socket, as ``ss`` does; its tables take milliseconds to read. Raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        question = _QUESTION.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0xFFFFFFFF)
        question += _ID.pack(peer[1], ours[1], socket.inet_aton(peer[0]), socket.inet_aton(ours[0]), _NO_COOKIE)
        header = _HEADER.pack(_HEADER.size + len(question), _DIAG_BY_FAMILY, _REQUEST, 1, 0)
        kernel.sendto(header + question, (0, 0))
        said = kernel.recv(4096)
    if _HEADER.unpack_from(said)[1] == _ERROR:
        number = -struct.unpack_from("=i", said, _HEADER.size)[0]
        raise OSError(number, os.strerror(number))
    if len(said) < _OWNER_AT + _OWNER.size:
        raise OSError(errno.EPROTO, "the answer of the kernel is too short")
    user, inode = _OWNER.unpack_from(said, _OWNER_AT)
    return user if inode else None


def _lines() -> list[str]:
    return [line for table in TABLES if table.exists() for line in table.read_text(encoding="ascii").splitlines()]


def owner_in(lines: Iterable[str], peer: Address, ours: Address) -> int | None:
    """The user of the socket at `peer` that is connected to `ours`, from the kernel's tables; None when there is none.

    A socket that its process has closed has no inode, and is shown as root's whoever it was.
    """
    wanted = (_in_table(peer), _in_table(ours))
    for line in lines:
        words = line.split()
        if len(words) < 10 or not (words[7].isdecimal() and words[9].isdecimal()):
            continue
        if (_as_ipv4(words[1]), _as_ipv4(words[2])) == wanted and int(words[9]):
            return int(words[7])
    return None


def _in_table(address: Address) -> str:
    """``127.0.0.1``, 8080 → ``0100007F:1F90`` where the machine is little-endian."""
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"


def _as_ipv4(address: str) -> str:
    """An IPv6 socket on an IPv4 connection shows the address in its last third."""
    host, _, port = address.partition(":")
    return f"{host[24:]}:{port}" if len(host) == 32 and host.startswith("0" * 16) else address
