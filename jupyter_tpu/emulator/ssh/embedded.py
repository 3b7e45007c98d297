"""The embedded SSH server of a worker, on asyncssh: logins by public key, commands, shells and forwarding.

Sessions are ordinary processes. As with OpenSSH's server, a lost connection closes a command's pipes but does not kill
the command, and background processes of a login keep running.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncssh

from jupyter_tpu.emulator.access.peers import is_own_connection
from jupyter_tpu.emulator.ssh.worker_session import WorkerSession
from jupyter_tpu.emulator.workers.machine import Machine

LOOPBACK = ("127.0.0.1", "localhost", "::1")
WINDOW_BYTES = 32 * 1024 * 1024  # asyncssh's 2 MiB would slow down transfers with a long round trip


class EmbeddedSshServer:
    """An asyncssh listener; implements `machine.SshServer`."""

    def __init__(self, acceptor: asyncssh.SSHAcceptor, connections: set[asyncssh.SSHServerConnection]) -> None:
        self._acceptor = acceptor
        self._connections = connections

    @property
    def port(self) -> int:
        """The port on which the server listens."""
        return int(self._acceptor.get_port())

    def keys_changed(self) -> None:
        """Do nothing: each login reads the machine's keys."""

    async def close(self) -> None:
        """Stop listening and break all connections."""
        self._acceptor.close()
        connections = list(self._connections)
        for connection in connections:
            connection.abort()
        await self._acceptor.wait_closed()
        await asyncio.gather(*(connection.wait_closed() for connection in connections))


async def start_embedded_server(machine: Machine, port: int) -> EmbeddedSshServer:
    """Listen on loopback. Raises OSError if the port is in use."""
    connections: set[asyncssh.SSHServerConnection] = set()
    acceptor = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_factory=lambda: WorkerServer(machine, connections),
        server_host_keys=[machine.host_key],
        agent_forwarding=False,
        x11_forwarding=False,
        gss_host=None,
        # a lost client is noticed after about 90 s, so that its sessions don't accumulate
        keepalive_interval=30,
        login_timeout=60,
    )
    return EmbeddedSshServer(acceptor, connections)


class WorkerServer(asyncssh.SSHServer):
    """Access rules of a machine: who may log in and what a connection may open. asyncssh calls the methods."""

    def __init__(self, machine: Machine, connections: set[asyncssh.SSHServerConnection]) -> None:
        self._machine = machine
        self._connections = connections
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Reject connections from other users of this computer."""
        if not is_own_connection(conn.get_extra_info("peername"), conn.get_extra_info("sockname")):
            # the connection is from another user of this computer, so abort before any key exchange
            conn.abort()
        self._connection = conn
        self._connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the set of open connections."""
        if self._connection is not None:
            self._connections.discard(self._connection)

    def begin_auth(self, username: str) -> bool:
        """Require authentication."""
        return True

    def public_key_auth_supported(self) -> bool:
        """Allow only public-key authentication."""
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Accept the public keys that the metadata lists for this user."""
        # compare the key without its comment, as `machine.key_lines` stores it
        offered = " ".join(key.export_public_key().decode().split()[:2])
        return (username, offered) in self._machine.authorized

    def session_requested(self) -> tuple[asyncssh.SSHServerChannel[bytes], asyncssh.SSHServerSession[bytes]]:
        """Open a session on the machine."""
        assert self._connection is not None, "asyncssh opens sessions on connections that were made"
        user = self._connection.get_extra_info("username")
        channel = self._connection.create_server_channel(encoding=None, window=WINDOW_BYTES)
        return channel, WorkerSession(self._machine, user)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        """Allow TCP forwarding only to loopback addresses."""
        return dest_host in LOOPBACK

    def unix_connection_requested(self, dest_path: str) -> bool:
        """Allow forwarding only to Unix sockets below the home folder and /tmp."""
        # resolve the path first, so that no symbolic link leads out of these folders
        target = Path(dest_path).resolve()
        return any(target.is_relative_to(top) for top in (self._machine.home.resolve(), Path("/tmp").resolve()))
