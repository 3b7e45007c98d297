"""One SSH connection to one worker.

Tuned as measured: AES-GCM first (the fastest cipher here), a channel window of 32 MiB (the stock 2 MiB halve the
throughput at 50 ms), packets of 128 KiB to us (an eighth less CPU per MiB than the stock 32), keepalives that notice a
dead link after 12 s.
"""

from __future__ import annotations

import asyncio
import contextlib

import asyncssh

from jupyter_tpu.errors import LoginRefused, TpuError, WorkerUnreachable
from jupyter_tpu.ssh.address import WorkerAddress
from jupyter_tpu.ssh.attempts import Heard, first_outcome
from jupyter_tpu.ssh.client_config import Files, Route, default_config_files, resolved_route
from jupyter_tpu.ssh.direct import DirectWay
from jupyter_tpu.ssh.hostkeys import host_key_changed
from jupyter_tpu.ssh.keys import UserKey
from jupyter_tpu.ssh.proxy import ProxyCommand
from jupyter_tpu.ssh.stream import ByteStream, connection_lost

CONNECT_TIMEOUT_S = 20
AGAIN_S = 2
KEEPALIVE_INTERVAL_S = 4
KEEPALIVE_COUNT = 2
WINDOW_BYTES = 32 << 20
PACKET_BYTES = 128 << 10

# What asyncssh lets out of a key exchange that was damaged on its way, where no checksum protects it yet.
_GARBLED = (asyncssh.packet.PacketDecodeError, UnicodeDecodeError)

_HOST_KEY_ALGORITHMS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)


async def connect(
    address: WorkerAddress,
    key: UserKey,
    *,
    proxy_command: str | None = None,
    config_files: Files | None = None,
) -> SshConnection:
    """Connect to the worker at `address` and log in with `key`.

    Args:
        proxy_command: a command to connect through, as in ssh's ProxyCommand (%h, %p, %n, %r are filled in); goes
            before what the user's ssh configuration says.
        config_files: the user's ssh configuration; ``~/.ssh/config`` if None.

    Raises:
        HostKeyChanged: the worker showed a key other than those of `address`.
        LoginRefused: it does not accept our key.
        WorkerUnreachable: it does not answer, or what answers is no SSH server.
        BadInput: the ssh configuration or the proxy command cannot be read.
    """
    files = default_config_files() if config_files is None else config_files
    with resolved_route(address, proxy_command, files) as route:
        proxy = await ProxyCommand.start(route.proxy_argv) if route.proxy_argv else None
        try:
            if proxy:
                return SshConnection(await _open(address, key, route, proxy), proxy)
            # TCP repeats a lost SYN after 1, 3, 7 and 15 s, and a greeting that was swallowed never comes. A path that
            # is merely distant answers: seven round trips of it are no reason for a second connection.
            return SshConnection(
                await first_outcome(
                    lambda heard: _open(address, key, route, None, heard),
                    silence_s=AGAIN_S,
                    give_back=asyncssh.SSHClientConnection.abort,
                )
            )
        except BaseException:
            if proxy:
                await proxy.close()
            raise


async def _open(
    address: WorkerAddress, key: UserKey, route: Route, proxy: ProxyCommand | None, heard: Heard | None = None
) -> asyncssh.SSHClientConnection:
    guest = _Client()
    direct = DirectWay(heard, family=route.family, local_addr=route.local_addr) if heard and not route.jumps else None
    try:
        connection = await asyncssh.connect(
            address.alias,
            route.port,
            config=[str(path) for path in route.files],
            sock=proxy.sock if proxy else None,
            tunnel=None if proxy else direct or (),
            proxy_command=None,
            client_factory=lambda: guest,
            username=route.user,
            client_keys=[str(key.private_path), *route.identities],
            ignore_encrypted=True,
            known_hosts=([asyncssh.import_public_key(line) for line in address.host_keys], [], []),
            host_key_alias=address.host_key_alias or address.alias,
            server_host_key_algs=_preferred_algorithms(address.host_keys),
            encryption_algs="^aes128-gcm@openssh.com",
            preferred_auth="publickey",
            agent_path=None,
            agent_forwarding=False,
            x11_forwarding=False,
            connect_timeout=CONNECT_TIMEOUT_S,
            keepalive_interval=KEEPALIVE_INTERVAL_S,
            keepalive_count_max=KEEPALIVE_COUNT,
            encoding=None,
            command=None,
            env=None,
            send_env=None,
            request_pty=False,
        )
        if direct:
            direct.stop_listening()
        return connection
    except (OSError, asyncssh.Error, *_GARBLED) as error:
        raise _explained(error, address, route, guest.refused_key, proxy.words if proxy else "") from error


class SshConnection:
    """A logged-in connection; `connect` makes it."""

    def __init__(self, connection: asyncssh.SSHClientConnection, proxy: ProxyCommand | None = None) -> None:
        self._connection = connection
        self._proxy = proxy
        self._wakener: asyncio.Task[None] | None = None
        self._executed = False

    @property
    def is_closed(self) -> bool:
        """Whether the connection is gone; reads a field, never the network."""
        return self._connection.is_closed()

    async def execute(self, command: str) -> ByteStream:
        """Run a fixed `command` (never built from data: everything variable travels on its standard input)."""
        self._executed = True
        try:
            writer, reader, errors = await self._connection.open_session(command, encoding=None, window=WINDOW_BYTES)
        except (OSError, asyncssh.Error) as error:
            raise self._not_opened("run a command on the worker", error) from error
        return ByteStream(reader, writer, errors)

    async def open_unix(self, path: str) -> ByteStream:
        """Connect to the Unix socket at `path` on the worker."""
        if not self._executed:
            self._wakener = asyncio.create_task(self._wake())
        try:
            reader, writer = await self._connection.open_unix_connection(
                path, encoding=None, window=WINDOW_BYTES, max_pktsize=PACKET_BYTES
            )
        except (OSError, asyncssh.Error) as error:
            raise self._not_opened(f"open the socket {path} on the worker", error) from error
        return ByteStream(reader, writer)

    async def wait_closed(self) -> None:
        """Wait until the connection is gone, for whatever reason."""
        await self._connection.wait_closed()

    async def close(self) -> None:
        """Close the connection and everything that carried it."""
        self._connection.close()
        if self._wakener:
            self._wakener.cancel()
            await asyncio.wait([self._wakener])
        try:
            async with asyncio.timeout(KEEPALIVE_INTERVAL_S):
                await self._connection.wait_closed()
        except TimeoutError:
            self._connection.abort()
            await self._connection.wait_closed()
        if self._proxy:
            await self._proxy.close()

    async def _wake(self) -> None:
        """Run a command once: OpenSSH's server turns Nagle's delay off only for connections that execute something."""
        self._executed = True
        with contextlib.suppress(OSError, asyncssh.Error):
            await self._connection.run("true", check=False)

    def _not_opened(self, what: str, error: Exception) -> WorkerUnreachable:
        if self.is_closed or not isinstance(error, asyncssh.ChannelOpenError):
            return connection_lost(error)
        return WorkerUnreachable(
            f"The worker's SSH server refused to {what}.",
            hint="Its sshd may forbid it (AllowStreamLocalForwarding, MaxSessions), or nothing listens there.",
            raw=str(error),
        )


class _Client(asyncssh.SSHClient):
    """Remembers the host key that asyncssh did not find among the pinned ones."""

    def __init__(self) -> None:
        self.refused_key = ""

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002
        self.refused_key = key.export_public_key().decode().strip()
        return False


def _preferred_algorithms(host_keys: tuple[str, ...]) -> list[str]:
    """All host key algorithms, those of the pinned keys first: another kind is to be seen and refused, not missed."""
    pinned = {_algorithm_family(line.split()[0]) for line in host_keys}
    return sorted(_HOST_KEY_ALGORITHMS, key=lambda name: _algorithm_family(name) not in pinned)


def _algorithm_family(name: str) -> str:
    return "rsa" if "rsa" in name else name


def _explained(error: Exception, address: WorkerAddress, route: Route, shown_key: str, proxy_words: str) -> TpuError:
    """What a failed connection means to the user."""
    raw = "\n".join(part for part in (str(error) or type(error).__name__, proxy_words) if part)
    if shown_key:
        alias = address.host_key_alias or address.alias
        return host_key_changed(alias, address.host_keys, shown_key, name=address.alias)
    if isinstance(error, asyncssh.PermissionDenied):
        return LoginRefused(
            f"{address.alias} does not accept our SSH key for the user {route.user}.",
            hint="A key added to a node's metadata takes up to a minute to arrive. Check `ssh-keys` in the node's "
            "metadata, and whether the project enforces OS Login.",
            raw=raw,
        )
    where = f"through {route.proxy_argv[0]}" if route.proxy_argv else f"at {route.host} port {route.port}"
    return WorkerUnreachable(
        f"{address.alias} does not answer over SSH {where}: {_reason(error)}.",
        exists="The node may be running and billed.",
        hint="Check that it is READY, that a firewall rule allows this port, and whether it needs a tunnel "
        "(`proxy_command`, or ProxyCommand in ~/.ssh/config).",
        raw=raw,
    )


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_TIMEOUT_S} s"
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return "the host key of the jump host is not known"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return (str(error) or type(error).__name__).splitlines()[0][:200].rstrip(".")
