"""Cut the TCP connections between two workers like a firewall that drops packets: the processes at both ends wait.

On Linux, a process can duplicate the socket of another process and attach a packet filter to it. This needs no more
privileges than a debugger has. A filter that accepts no packet drops all incoming data; when it is removed, TCP
retransmits the lost data.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.emulator.workers.process_tree import processes_of

# numbers from asm-generic: pidfd_getfd, and the socket options that attach and detach a filter
_PIDFD_GETFD, _ATTACH_FILTER, _DETACH_FILTER = 438, 26, 27
_DROP_ALL = struct.pack("HBBI", 6, 0, 0, 0)  # BPF_RET | BPF_K with 0: keep no byte of any packet
_LISTEN = "0A"  # state of a socket in /proc/net/tcp
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))

Place = tuple[int, int]
"""The pid of a process, and one of its file descriptors."""


@dataclass(frozen=True, slots=True)
class _Socket:
    local: str
    remote: str
    is_listening: bool


class CannotCut(Exception):
    """This system does not let a process access the sockets of another process; the text contains the reason."""


def refuse_if_impossible() -> None:
    """Raise CannotCut if this system can't cut the network between workers."""
    if sys.platform != "linux":
        raise CannotCut("The network between workers can be cut on Linux only")


def cut_connections(first: str, second: str) -> None:
    """Drop all data on the connections between two workers, given by their tokens; a second call has no effect.

    Raises:
        CannotCut: this system forbids it.
    """
    _for_each_end(first, second, _attach)


def restore_connections(first: str, second: str) -> None:
    """Restore connections that `cut_connections` has cut."""
    _for_each_end(first, second, _detach)


def _for_each_end(first: str, second: str, act: Callable[[socket.socket], None]) -> None:
    for pid, descriptor in _ends_between(first, second):
        # the process may exit or close the socket at any time
        with suppress(ProcessLookupError), _borrowed(pid, descriptor) as end:
            act(end)


def _ends_between(first: str, second: str) -> Iterator[Place]:
    """Yield both ends of each connection between two workers, or only the client's end before the server accepts it."""
    ours, theirs = _sockets_of(first), _sockets_of(second)
    table = _sockets()
    for mine, others in ((ours, theirs), (theirs, ours)):
        reached = {table[inode].local for inode in others if inode in table}
        # find servers that listen on all addresses of their machine
        ports = {each.local.rpartition(":")[2] for each in _listening(table, others)}
        for inode, places in mine.items():
            found = table.get(inode)
            if found and not found.is_listening and _leads_to(found.remote, reached, ports):
                yield from places


def _listening(table: dict[str, _Socket], inodes: Iterable[str]) -> Iterator[_Socket]:
    return (table[inode] for inode in inodes if inode in table and table[inode].is_listening)


def _leads_to(remote: str, reached: set[str], ports: set[str]) -> bool:
    return remote in reached or remote.rpartition(":")[2] in ports


def _sockets_of(token: str) -> dict[str, list[Place]]:
    """Return the process id and file descriptor of each open socket of a worker, by the socket's inode."""
    found: dict[str, list[Place]] = defaultdict(list)
    for process in processes_of([token]):
        with suppress(OSError):
            for link in Path(f"/proc/{process.pid}/fd").iterdir():
                with suppress(OSError):
                    target = str(link.readlink())
                    if target.startswith("socket:["):
                        found[target[8:-1]].append((process.pid, int(link.name)))
    return found


def _sockets() -> dict[str, _Socket]:
    """Return all TCP sockets of this machine by inode, from ``/proc/net/tcp`` and ``/proc/net/tcp6``."""
    rows = (line.split() for table in _TABLES if table.exists() for line in table.read_text().splitlines()[1:])
    return {
        row[9]: _Socket(_last_quarter(row[1]), _last_quarter(row[2]), row[3] == _LISTEN)
        for row in rows
        if len(row) > 9 and row[9] != "0"
    }


def _last_quarter(address: str) -> str:
    host, _, port = address.partition(":")
    return f"{host[-8:]}:{port}"


def _attach(end: socket.socket) -> None:
    code = ctypes.create_string_buffer(_DROP_ALL)
    end.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(code)))


def _detach(end: socket.socket) -> None:
    with suppress(OSError):  # the socket had no filter
        end.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)


def _borrowed(pid: int, descriptor: int) -> socket.socket:
    """Return a duplicate of another process's socket; close it after use.

    Raises:
        ProcessLookupError: the process has exited or closed the socket.
        CannotCut: this system forbids it.
    """
    process = os.pidfd_open(pid)
    try:
        copy = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, process, descriptor, 0)
        failed = ctypes.get_errno()
    finally:
        os.close(process)
    if copy >= 0:
        return socket.socket(fileno=copy)
    if failed in (errno.ESRCH, errno.EBADF):
        raise ProcessLookupError(pid)
    raise CannotCut(f"This system does not let the emulator reach a worker's sockets ({os.strerror(failed)})")
