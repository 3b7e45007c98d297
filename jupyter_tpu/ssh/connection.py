"""One SSH connection to one worker.

Tuned by measurement: AES-GCM first (the fastest cipher in asyncssh), a channel window of 32 MiB (the default 2 MiB
halves the throughput at a round trip of 50 ms), incoming packets of 128 KiB (12 % less CPU per MiB than with the
default 32 KiB), and keepalives that detect a dead connection after 12 s.
"""

from __future__ import annotations

import asyncio
import contextlib

import asyncssh

from jupyter_tpu.errors import LoginRefused, Text, TpuError, WorkerUnreachable
from jupyter_tpu.ssh.address import WorkerAddress
from jupyter_tpu.ssh.attempts import OnActivity, first_outcome
from jupyter_tpu.ssh.client_config import Files, Route, default_config_files, resolved_route
from jupyter_tpu.ssh.direct import DirectTunnel
from jupyter_tpu.ssh.file_access import FileAccess
from jupyter_tpu.ssh.hostkeys import host_key_changed
from jupyter_tpu.ssh.keys import UserKey
from jupyter_tpu.ssh.proxy_command import ProxyCommand
from jupyter_tpu.ssh.stream import ByteStream, connection_lost

# asyncssh needs seven round trips to connect: 7 s if each takes 1 s. TCP repeats a lost SYN after 1, 3, 7 and 15 s.
CONNECT_TIMEOUT_S = 20
# A link must reconnect within 3 s after the network is back, and the second attempt needs time too. This time is
# counted from the last received byte, so that a slow but working connection causes no second attempt.
AGAIN_S = 2
# asyncssh gives up after (count + 1) intervals: 12 s. A broken link must be noticed within 15 s, which an interval of 5
# s did not achieve.
KEEPALIVE_INTERVAL_S = 4
KEEPALIVE_COUNT = 2
# With this window, 92 to 98 MiB/s were measured at a round-trip time of 50 ms. With asyncssh's default of 2 MiB, it was
# 18 MiB/s.
WINDOW_BYTES = 32 << 20
PACKET_BYTES = 128 << 10

# Exceptions that asyncssh raises after a corrupted key exchange, which no checksum protects yet.
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
        proxy_command: a command for the connection, as in ssh's ProxyCommand (%h, %p, %n, %r are filled in); overrides
            the user's ssh configuration.
        config_files: the user's ssh configuration; ``~/.ssh/config`` if None.

    Raises:
        HostKeyChanged: the worker's host key is not one of the host keys in `address`.
        LoginRefused: the worker does not accept the user's key.
        WorkerUnreachable: the worker does not respond, or the response does not come from an SSH server.
        BadInput: the ssh configuration or the proxy command is invalid.
    """
    files = default_config_files() if config_files is None else config_files
    with resolved_route(address, proxy_command, files) as route:
        proxy = await ProxyCommand.start(route.proxy_argv) if route.proxy_argv else None
        try:
            if proxy:
                return SshConnection(await _open(address, key, route, proxy), proxy)
            # TCP repeats a lost SYN after 1, 3, 7 and 15 s, and a lost banner never arrives, so a second connection
            # helps. A connection that is merely slow needs no second one, even if its seven round trips take long.
            return SshConnection(
                await first_outcome(
                    lambda on_activity: _open(address, key, route, None, on_activity),
                    silence_s=AGAIN_S,
                    give_back=asyncssh.SSHClientConnection.abort,
                )
            )
        except BaseException:
            if proxy:
                await proxy.close()
            raise


async def _open(
    address: WorkerAddress,
    key: UserKey,
    route: Route,
    proxy: ProxyCommand | None,
    on_activity: OnActivity | None = None,
) -> asyncssh.SSHClientConnection:
    client = _Client()
    # Received bytes can be monitored only on a direct connection, so only then can there be several attempts.
    direct = (
        DirectTunnel(on_activity, family=route.family, local_addr=route.local_addr)
        if on_activity and not route.jumps
        else None
    )
    try:
        connection = await asyncssh.connect(
            address.alias,
            route.port,
            config=[str(path) for path in route.files],
            sock=proxy.sock if proxy else None,
            tunnel=None if proxy else direct or (),
            proxy_command=None,
            client_factory=lambda: client,
            username=route.user,
            client_keys=[str(key.private_path), *route.identities],
            ignore_encrypted=True,  # one of the user's own keys may need a passphrase; ours does not
            # Accept only the pinned keys: neither known_hosts nor the user's configuration can add a key.
            known_hosts=([asyncssh.import_public_key(line) for line in address.host_keys], [], []),
            host_key_alias=address.host_key_alias or address.alias,
            server_host_key_algs=_preferred_algorithms(address.host_keys),
            encryption_algs="^aes128-gcm@openssh.com",
            preferred_auth="publickey",
            # The user's agent, display, environment and configured command must not reach a worker.
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
        if direct:  # from here on, nothing watches the received bytes
            direct.stop_watching()
        return connection
    except (OSError, asyncssh.Error, *_GARBLED) as error:
        raise _translated(error, address, route, client.refused_key, proxy.stderr_tail if proxy else "") from error


class SshConnection:
    """An SSH connection to a worker on which the user is logged in; created by `connect`."""

    def __init__(self, connection: asyncssh.SSHClientConnection, proxy: ProxyCommand | None = None) -> None:
        self._connection = connection
        self._proxy = proxy
        self._nagle_task: asyncio.Task[None] | None = None
        self._executed = False

    @property
    def is_closed(self) -> bool:
        """Whether the connection is known to be closed; this reads a field and does not use the network."""
        return self._connection.is_closed()

    async def execute(self, command: str) -> ByteStream:
        """Run `command`, which must be a fixed text. The caller must pass all data through its standard input.

        Raises:
            WorkerUnreachable: the connection broke, or the SSH server rejected the request.
        """
        self._executed = True
        try:
            writer, reader, errors = await self._connection.open_session(command, encoding=None, window=WINDOW_BYTES)
        except (OSError, asyncssh.Error) as error:
            raise self._not_opened("run a command on the worker", error) from error
        return ByteStream(reader, writer, errors)

    async def open_unix(self, path: str) -> ByteStream:
        """Connect to the Unix socket at `path` on the worker.

        Raises:
            WorkerUnreachable: the connection broke, the SSH server rejected the request, or nothing is listening there.
        """
        if not self._executed:
            self._nagle_task = asyncio.create_task(self._turn_off_nagle())
        try:
            reader, writer = await self._connection.open_unix_connection(
                path, encoding=None, window=WINDOW_BYTES, max_pktsize=PACKET_BYTES
            )
        except (OSError, asyncssh.Error) as error:
            raise self._not_opened(f"open the socket {path} on the worker", error) from error
        return ByteStream(reader, writer)

    async def open_files(self, machine: str = "") -> FileAccess:
        """Open an SFTP session; the caller must close it, unless the connection is closed anyway.

        Args:
            machine: the name before paths in errors; may be empty.

        Raises:
            WorkerUnreachable: the connection broke, or the SSH server offers no SFTP.
        """
        try:
            # with bytes as paths, because names needn't be valid UTF-8
            return FileAccess(await self._connection.start_sftp_client(path_encoding=None), machine)
        except (OSError, asyncssh.Error) as error:
            if self.is_closed or isinstance(error, OSError):
                raise connection_lost(error) from error
            raise WorkerUnreachable(
                "The worker's SSH server does not offer SFTP.",
                hint="Check `Subsystem sftp` and `MaxSessions` in the worker's sshd_config.",
                raw=str(error),
            ) from error

    async def wait_closed(self) -> None:
        """Wait until the connection is closed, for any reason."""
        await self._connection.wait_closed()

    async def close(self) -> None:
        """Close the connection and its proxy command; abort after 4 s if the network is down."""
        self._connection.close()
        if self._nagle_task:
            self._nagle_task.cancel()
            await asyncio.wait([self._nagle_task])
        # A broken connection never confirms that it is closed, so abort after one interval.
        try:
            async with asyncio.timeout(KEEPALIVE_INTERVAL_S):
                await self._connection.wait_closed()
        except TimeoutError:
            self._connection.abort()
            await self._connection.wait_closed()
        if self._proxy:
            await self._proxy.close()

    async def _turn_off_nagle(self) -> None:
        """Run a command once, because OpenSSH's server turns off Nagle's delay only after a command was executed.

        Measured: without it, `1+1` takes 22 ms instead of 4 ms.
        """
        self._executed = True
        with contextlib.suppress(OSError, asyncssh.Error):
            await self._connection.run("true", check=False)

    def _not_opened(self, what: str, error: Exception) -> WorkerUnreachable:
        # Only a ChannelOpenError on a working connection means that the server refused the channel.
        if self.is_closed or not isinstance(error, asyncssh.ChannelOpenError):
            return connection_lost(error)
        return WorkerUnreachable(
            Text("The worker's SSH server refused to {request}.", request=what),
            hint="Check `AllowStreamLocalForwarding` and `MaxSessions` in the worker's sshd_config. For a socket, also "
            "check that a process on the worker is listening on it.",
            raw=str(error),
        )


class _Client(asyncssh.SSHClient):
    """The SSH client, which stores the worker's host key if it is not pinned."""

    def __init__(self) -> None:
        self.refused_key = ""

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002
        self.refused_key = key.export_public_key().decode().strip()
        return False


def _preferred_algorithms(host_keys: tuple[str, ...]) -> list[str]:
    """Return all host key algorithms, with those of the pinned keys first.

    The other algorithms are offered too, so that a server with another kind of key is rejected with `HostKeyChanged`
    and not with a failed negotiation.
    """
    pinned = {_algorithm_family(line.split()[0]) for line in host_keys}
    return sorted(_HOST_KEY_ALGORITHMS, key=lambda name: _algorithm_family(name) not in pinned)


def _algorithm_family(name: str) -> str:
    return "rsa" if "rsa" in name else name


def _translated(
    error: Exception, address: WorkerAddress, route: Route, refused_key: str, proxy_stderr: str
) -> TpuError:
    """Return the jupyter_tpu error for a failed connection."""
    raw = "\n".join(part for part in (str(error) or type(error).__name__, proxy_stderr) if part)
    # Check for a refused key first, because asyncssh reports it like any failed connection.
    if refused_key:
        alias = address.host_key_alias or address.alias
        return host_key_changed(alias, address.host_keys, refused_key, name=address.alias)
    if isinstance(error, asyncssh.PermissionDenied):
        return LoginRefused(
            Text(
                "{worker} does not accept jupyter_tpu's SSH key for the user {user}.",
                worker=address.alias,
                user=route.user,
            ),
            hint="A key added to a node's metadata takes up to a minute to arrive. Check `ssh-keys` in the node's "
            "metadata, and whether the project enforces OS Login.",
            raw=raw,
        )
    where = f"through {route.proxy_argv[0]}" if route.proxy_argv else f"at {route.host} port {route.port}"
    return WorkerUnreachable(
        Text(
            "{worker} is not responding over SSH {where}: {reason}.",
            worker=address.alias,
            where=where,
            reason=_reason(error),
        ),
        exists="The node may be running and billed.",
        hint="Check that the node is READY, that a firewall rule allows this port, and whether a tunnel is "
        "needed (`proxy_command`, or ProxyCommand in ~/.ssh/config).",
        raw=raw,
    )


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no response within {CONNECT_TIMEOUT_S} s"
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return "the host key of the jump host is unknown"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return (str(error) or type(error).__name__).splitlines()[0][:200].rstrip(".")
