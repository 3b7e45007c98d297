"""Connect to a port of this worker: only over loopback, and only to a process of the user."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

from jupyter_tpu.agent.ports.sockets import TcpSocket, read_sockets
from jupyter_tpu.errors import BadInput, Text

_HOSTS = ("127.0.0.1", "::1")


async def connect_to_port(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to `port` on 127.0.0.1 or ::1.

    Raises:
        BadInput: no process listens on the port there, or a process of another user does.
    """
    for host in _HOSTS:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(host, port)
            if _is_ours(writer):
                return reader, writer
            writer.close()
            raise BadInput(
                Text("The process that listens on port {port} of the worker belongs to another user.", port=port),
                hint="Start your own program on another port.",
            )
    raise BadInput(
        Text("No process listens on port {port} of the worker.", port=port),
        hint="Start the program first. It must listen on 127.0.0.1, or on all addresses.",
    )


def _is_ours(writer: asyncio.StreamWriter) -> bool:
    """Whether the other end of a connection belongs to this user.

    This is checked after connecting, because another user's process could take the port between a check and the
    connection. A connection that nobody has accepted yet has no owner, and ends with its listener; so the listener's
    owner decides.
    """
    ours, theirs = writer.get_extra_info("sockname")[:2], writer.get_extra_info("peername")[:2]
    sockets = list(read_sockets())
    owners = [one.uid for one in sockets if one.local == theirs and one.remote == ours and one.inode]
    owners = owners or [one.uid for one in sockets if one.is_listening and _serves(one, theirs)]
    return set(owners) == {os.getuid()}


def _serves(listener: TcpSocket, address: tuple[str, int]) -> bool:
    """Whether a listening socket may accept connections to an address; ``::`` also accepts IPv4."""
    host, port = listener.local
    return port == address[1] and host in (address[0], "0.0.0.0", "::")
