"""SSH servers to connect to: asyncssh in this process, and the machine's own OpenSSH on a loopback port."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from jupyter_tpu.ssh import SshConnection, UserKey, WorkerAddress, connect

SSHD = "/usr/sbin/sshd"


@pytest.fixture
def user_key(tmp_path: Path) -> UserKey:
    return UserKey.load_or_create(tmp_path / "laptop")


@pytest.fixture
def host_key() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")


def public_line(key: asyncssh.SSHKey) -> str:
    return key.export_public_key().decode().strip()


class EmbeddedServer:
    """An asyncssh server that runs commands in a shell and opens Unix sockets; it waits for its commands to end."""

    def __init__(self) -> None:
        self.connections: list[asyncssh.SSHServerConnection] = []
        self._commands: set[asyncio.Task[None]] = set()

    async def listen(self, host_key: asyncssh.SSHKey, authorized_keys: Path) -> None:
        self._acceptor = await asyncssh.listen(
            "127.0.0.1",
            0,
            server_factory=lambda: _Guard(self.connections),
            server_host_keys=[host_key],
            authorized_client_keys=str(authorized_keys),
            process_factory=self._start,
            sftp_factory=True,
            encoding=None,
        )

    @property
    def port(self) -> int:
        return self._acceptor.get_port()

    async def close(self) -> None:
        self._acceptor.close()
        for connection in self.connections:
            connection.abort()
            await connection.wait_closed()
        if self._commands:
            await asyncio.wait(self._commands)
        await self._acceptor.wait_closed()

    def _start(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        self._commands.add(asyncio.create_task(_run_in_shell(process)))


class _Guard(asyncssh.SSHServer):
    def __init__(self, connections: list[asyncssh.SSHServerConnection]) -> None:
        self._connections = connections

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connections.append(conn)

    def unix_connection_requested(self, dest_path: str) -> bool:
        return True


async def _run_in_shell(process: asyncssh.SSHServerProcess[bytes]) -> None:
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_shell(process.command or "true", stdin=pipe, stdout=pipe, stderr=pipe)
    feeding = asyncio.create_task(_copy(process.stdin, child.stdin))
    await asyncio.gather(_copy(child.stdout, process.stdout), _copy(child.stderr, process.stderr))
    process.exit(await child.wait())
    await feeding


async def _copy(source: Any, target: Any) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):
        while piece := await source.read(65536):
            target.write(piece)
    if isinstance(target, asyncio.StreamWriter):
        target.close()


@pytest.fixture
async def embedded_server(
    tmp_path: Path, user_key: UserKey, host_key: asyncssh.SSHKey
) -> AsyncIterator[EmbeddedServer]:
    authorized = tmp_path / "authorized_keys"
    authorized.write_text(user_key.public_line + "\n")
    server = EmbeddedServer()
    await server.listen(host_key, authorized)
    yield server
    await server.close()


@pytest.fixture
def address(embedded_server: EmbeddedServer, host_key: asyncssh.SSHKey) -> WorkerAddress:
    return loopback_address(embedded_server.port, (public_line(host_key),))


def loopback_address(port: int, host_keys: tuple[str, ...]) -> WorkerAddress:
    return WorkerAddress(
        host="127.0.0.1",
        port=port,
        user=getpass.getuser(),
        host_keys=host_keys,
        alias="my-node.us-central1-a.tpu",
        host_key_alias="tpu-4711-w0",
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running_sshd(folder: Path, host_key: asyncssh.SSHKey, authorized: str) -> Iterator[int]:
    """The machine's OpenSSH server on a free loopback port, with `authorized` as the only way in."""
    folder.mkdir(mode=0o700)
    host_key.write_private_key(str(folder / "host_key"))
    (folder / "host_key").chmod(0o600)
    (folder / "authorized_keys").write_text(authorized + "\n")
    Path("/run/sshd").mkdir(exist_ok=True)
    port = free_port()
    config = folder / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\nPasswordAuthentication no\nStrictModes no\nUsePAM no\n"
        "Subsystem sftp internal-sftp\n"
    )
    process = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        while b"listening" not in (line := process.stderr.readline()):
            assert line, "sshd ended before it listened"
        yield port
    finally:
        process.terminate()
        process.wait(10)
        process.stderr.close()


@pytest.fixture
def openssh_address(tmp_path: Path, user_key: UserKey, host_key: asyncssh.SSHKey) -> Iterator[WorkerAddress]:
    with running_sshd(tmp_path / "sshd", host_key, user_key.public_line) as port:
        yield loopback_address(port, (public_line(host_key),))


@pytest.fixture(params=["embedded", pytest.param("openssh", marks=pytest.mark.system("sshd"))])
def worker(request: pytest.FixtureRequest) -> WorkerAddress:
    """The same worker behind either kind of SSH server."""
    name = "address" if request.param == "embedded" else "openssh_address"
    found: WorkerAddress = request.getfixturevalue(name)
    return found


@pytest.fixture
async def connection(worker: WorkerAddress, user_key: UserKey) -> AsyncIterator[SshConnection]:
    opened = await connect(worker, user_key, config_files=())
    yield opened
    await opened.close()
