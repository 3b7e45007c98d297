"""Find a free TCP port, and the process that uses the preferred one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from jupyter_tpu.notebook.node.holders import find_holder
from jupyter_tpu.tpu_files import PROC, open_by

_LISTEN = "0A"  # state of a socket in /proc/net/tcp
_TRIES = 20


def free_port(address: str, wanted: int) -> int:
    """Return the first port at or after `wanted` that is free at an address, or `wanted` if no port is free."""
    for port in range(wanted, wanted + _TRIES):
        with suppress(OSError):
            socket.create_server((address, port)).close()
            return port
    return wanted


def who_listens(port: int, proc: Path = PROC) -> str:
    """Describe the process that listens on a port; return "" if it isn't visible, as with another user's process."""
    sockets = {f"socket:[{row[9]}]" for row in _rows(proc) if row[3] == _LISTEN and row[1].endswith(f":{port:04X}")}
    pids = open_by(sockets, proc)
    return find_holder(pids[0], proc).text if pids else ""


def _rows(proc: Path) -> Iterator[list[str]]:
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            yield from (line.split() for line in (proc / "net" / name).read_text().splitlines()[1:])
