from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import struct
import sys
from pathlib import Path
from typing import Any

import asyncssh
import psutil
import pytest

from jupyter_tpu.emulator.network_faults.fault_proxy import FaultProxy
from jupyter_tpu.emulator.network_faults.verbs import link_fault_from_json
from jupyter_tpu.errors import BadInput, HostKeyChanged, LoginRefused, WorkerUnreachable
from jupyter_tpu.ssh import ByteStream, SshConnection, UserKey, WorkerAddress, connect, fingerprint

RELAY = """
import socket, sys, threading
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def up():
    while data := sys.stdin.buffer.raw.read(65536):
        sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
print("WARNING: a tunnel that talks", file=sys.stderr, flush=True)
while data := sock.recv(65536):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
"""


async def read_all(stream: ByteStream) -> bytes:
    pieces = []
    while piece := await stream.read(65536):
        pieces.append(piece)
    return b"".join(pieces)


async def test_a_command_gets_its_input_and_gives_its_output_and_status(connection: SshConnection) -> None:
    stream = await connection.execute("cat; echo wrong >&2; exit 3")
    stream.write(b"hello")
    stream.write_eof()
    assert await read_all(stream) == b"hello"
    assert await stream.read_stderr() == "wrong\n"
    assert await stream.exit_status() == 3


async def test_of_much_standard_error_only_the_end_is_kept(connection: SshConnection) -> None:
    stream = await connection.execute("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo the end >&2")
    words = await stream.read_stderr()
    assert words.endswith("xthe end\n")
    assert len(words) <= 64 * 1024


async def test_a_unix_socket_carries_bytes_both_ways(connection: SshConnection, tmp_path: Path) -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read(100)).upper())
        writer.close()

    path = str(tmp_path / "agent.sock")
    async with await asyncio.start_unix_server(shout, path):
        stream = await connection.open_unix(path)
        stream.write(b"hello")
        await stream.drain()
        assert await read_all(stream) == b"HELLO"
        stream.close()
        await stream.wait_closed()


async def test_a_socket_that_is_not_there_is_named(connection: SshConnection) -> None:
    with pytest.raises(WorkerUnreachable, match=r"refused to open the socket /nowhere/agent\.sock"):
        await connection.open_unix("/nowhere/agent.sock")


async def test_what_is_written_after_closing_is_dropped(connection: SshConnection) -> None:
    stream = await connection.execute("cat")
    stream.close()
    stream.write(b"late")
    await stream.wait_closed()
    stream.write(b"later")


async def test_closing_ends_the_connection(worker: WorkerAddress, user_key: UserKey) -> None:
    opened = await connect(worker, user_key, config_files=())
    assert not opened.is_closed
    await opened.close()
    assert opened.is_closed
    await opened.wait_closed()
    with pytest.raises(WorkerUnreachable, match="was lost"):
        await opened.execute("true")


async def test_a_server_that_goes_away_is_noticed_by_reader_and_connection(
    embedded_server: Any, address: WorkerAddress, user_key: UserKey
) -> None:
    opened = await connect(address, user_key, config_files=())
    stream = await opened.execute("cat")
    embedded_server.connections[0].abort()
    await asyncio.wait_for(opened.wait_closed(), 120)
    with pytest.raises(WorkerUnreachable, match="was lost"):
        await stream.read(1)
    with pytest.raises(WorkerUnreachable, match="was lost"):
        await stream.drain()
    await opened.close()


async def test_another_host_key_is_refused_with_both_fingerprints(worker: WorkerAddress, user_key: UserKey) -> None:
    pinned = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
    impostor = dataclasses.replace(worker, host_keys=(pinned,))
    with pytest.raises(HostKeyChanged) as caught:
        await connect(impostor, user_key, config_files=())
    assert fingerprint(pinned) in caught.value.exists
    assert fingerprint(worker.host_keys[0]) in caught.value.exists


async def test_another_kind_of_host_key_is_refused_too(worker: WorkerAddress, user_key: UserKey) -> None:
    pinned = asyncssh.generate_private_key("ecdsa-sha2-nistp256").export_public_key().decode().strip()
    with pytest.raises(HostKeyChanged):
        await connect(dataclasses.replace(worker, host_keys=(pinned,)), user_key, config_files=())


async def test_a_key_the_worker_does_not_know_is_refused_clearly(worker: WorkerAddress, tmp_path: Path) -> None:
    stranger = UserKey.load_or_create(tmp_path / "stranger")
    with pytest.raises(LoginRefused, match="does not accept jupyter_tpu's SSH key"):
        await connect(worker, stranger, config_files=())


async def test_a_port_where_nobody_listens_is_unreachable(
    embedded_server: Any, address: WorkerAddress, user_key: UserKey
) -> None:
    await embedded_server.close()
    with pytest.raises(WorkerUnreachable, match=r"127\.0\.0\.1 port \d+") as caught:
        await connect(address, user_key, config_files=())
    assert "firewall" in caught.value.hint


async def test_a_server_that_speaks_no_ssh_is_unreachable(address: WorkerAddress, user_key: UserKey) -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(web, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(WorkerUnreachable):
            await connect(dataclasses.replace(address, port=port), user_key, config_files=())


@pytest.mark.parametrize(
    "names",
    [
        struct.pack(">I", 4000) + b"curve25519-sha256",  # a length that was hit
        b"".join(struct.pack(">I", 2) + b"\xff\xfe" for _ in range(10)) + bytes(5),  # names that were hit
    ],
    ids=["length", "names"],
)
async def test_a_key_exchange_that_arrives_damaged_is_tried_again(
    address: WorkerAddress, user_key: UserKey, names: bytes
) -> None:
    async def damaged(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        payload = b"\x14" + bytes(16) + names
        padding = 4 + (-(5 + len(payload) + 4)) % 8
        packet = struct.pack(">IB", 1 + len(payload) + padding, padding) + payload + bytes(padding)
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n" + packet)
        await reader.read()
        writer.close()

    async with await asyncio.start_server(damaged, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(WorkerUnreachable):
            await connect(dataclasses.replace(address, port=port), user_key, config_files=())


async def test_a_proxy_command_carries_the_connection_and_its_chatter_does_no_harm(
    worker: WorkerAddress, user_key: UserKey, tmp_path: Path
) -> None:
    script = tmp_path / "relay.py"
    script.write_text(RELAY)
    hidden = dataclasses.replace(worker, alias="hidden.us-central1-a.tpu")
    opened = await connect(hidden, user_key, proxy_command=f"{sys.executable} '{script}' %h %p", config_files=())
    stream = await opened.execute("echo through")
    assert await read_all(stream) == b"through\n"
    await opened.close()


async def test_a_proxy_command_never_reaches_a_shell(address: WorkerAddress, user_key: UserKey, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    with pytest.raises(WorkerUnreachable):
        await connect(address, user_key, proxy_command=f"false ; touch {canary}", config_files=())
    assert not canary.exists()


async def test_a_proxy_command_that_is_missing_is_named(address: WorkerAddress, user_key: UserKey) -> None:
    with pytest.raises(WorkerUnreachable, match="'no-such-tunnel' cannot be run"):
        await connect(address, user_key, proxy_command="no-such-tunnel %h", config_files=())


async def test_what_a_failing_proxy_command_says_is_kept(address: WorkerAddress, user_key: UserKey) -> None:
    with pytest.raises(WorkerUnreachable) as caught:
        await connect(address, user_key, proxy_command="sh -c 'echo you are not signed in >&2'", config_files=())
    assert "you are not signed in" in caught.value.raw


async def test_the_users_ssh_configuration_is_followed(
    embedded_server: Any, address: WorkerAddress, user_key: UserKey, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host *.tpu\n  HostName 127.0.0.1\n  Port {embedded_server.port}\n")
    elsewhere = dataclasses.replace(address, host="192.0.2.1", port=9)
    opened = await connect(elsewhere, user_key, config_files=(config,))
    await opened.close()


async def test_an_identity_of_the_users_ssh_configuration_is_tried_too(
    address: WorkerAddress, user_key: UserKey, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host my-node.*\n  IdentityFile {user_key.private_path}\n")
    stranger = UserKey.load_or_create(tmp_path / "stranger")
    opened = await connect(address, stranger, config_files=(config,))
    await opened.close()


async def test_a_proxy_command_of_the_users_ssh_configuration_gets_the_workers_address(
    address: WorkerAddress, user_key: UserKey, tmp_path: Path
) -> None:
    script = tmp_path / "relay.py"
    script.write_text(RELAY)
    config = tmp_path / "config"
    config.write_text(f"Host *.tpu\n  ProxyCommand {sys.executable} {script} %h %p\n")
    opened = await connect(address, user_key, config_files=(config,))
    stream = await opened.execute("echo through")
    assert await read_all(stream) == b"through\n"
    await opened.close()


async def test_a_proxy_command_that_dies_is_reaped_without_a_word(
    address: WorkerAddress, user_key: UserKey, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = tmp_path / "relay.py"
    script.write_text(RELAY)
    for _ in range(5):
        opened = await connect(address, user_key, proxy_command=f"{sys.executable} {script} %h %p", config_files=())
        for child in psutil.Process().children():
            if str(script) in child.cmdline():
                child.kill()
        await opened.wait_closed()
        await opened.close()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


@pytest.mark.parametrize("deaf", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
async def test_a_proxy_command_that_does_not_end_with_its_connection_is_ended(
    address: WorkerAddress, user_key: UserKey, tmp_path: Path, deaf: str
) -> None:
    script = tmp_path / "relay.py"
    script.write_text(f"import signal\n{deaf}\n{RELAY}\nsignal.pause()\n")
    opened = await connect(address, user_key, proxy_command=f"{sys.executable} {script} %h %p", config_files=())
    await opened.close()
    assert [child for child in psutil.Process().children() if str(script) in child.cmdline()] == []


async def test_what_the_wrapper_of_a_proxy_command_has_started_is_ended_too(
    address: WorkerAddress, user_key: UserKey, tmp_path: Path
) -> None:
    script, wrapper = tmp_path / "relay.py", tmp_path / "wrapper.sh"
    script.write_text(f"{RELAY}\nimport signal\nsignal.pause()\n")
    wrapper.write_text(f"{sys.executable} {script} $1 $2; true\n")
    opened = await connect(address, user_key, proxy_command=f"sh {wrapper} %h %p", config_files=())
    async with asyncio.timeout(120):
        await opened.close()
    assert [each for each in psutil.process_iter(["cmdline"]) if str(script) in (each.info["cmdline"] or ())] == []


@pytest.mark.system("sshd")
async def test_a_jump_host_of_the_users_ssh_configuration_is_gone_through(
    openssh_address: WorkerAddress, user_key: UserKey, tmp_path: Path
) -> None:
    jump_port, host_key = openssh_address.port, openssh_address.host_keys[0]
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(f"[127.0.0.1]:{jump_port} {host_key}\n")
    config = tmp_path / "config"
    config.write_text(
        f"Host *.tpu\n  ProxyJump bastion\n"
        f"Host bastion\n  HostName 127.0.0.1\n  Port {jump_port}\n  User {openssh_address.user}\n"
        f"  IdentityFile {user_key.private_path}\n  UserKnownHostsFile {known_hosts}\n"
    )
    opened = await connect(openssh_address, user_key, config_files=(config,))
    stream = await opened.execute('echo "$SSH_CONNECTION"')
    assert (await read_all(stream)).startswith(b"127.0.0.1 ")
    await opened.close()


@pytest.mark.system("sshd")
async def test_a_jump_host_that_is_not_known_is_refused(
    openssh_address: WorkerAddress, user_key: UserKey, tmp_path: Path
) -> None:
    known_hosts = tmp_path / "known_hosts"
    known_hosts.touch()
    config = tmp_path / "config"
    config.write_text(
        f"Host *.tpu\n  ProxyJump bastion\n"
        f"Host bastion\n  HostName 127.0.0.1\n  Port {openssh_address.port}\n  UserKnownHostsFile {known_hosts}\n"
    )
    with pytest.raises(WorkerUnreachable, match="jump host is unknown"):
        await connect(openssh_address, user_key, config_files=(config,))


async def test_the_users_ssh_configuration_cannot_switch_the_host_key_check_off(
    worker: WorkerAddress, user_key: UserKey, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile none\n")
    pinned = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
    with pytest.raises(HostKeyChanged):
        await connect(dataclasses.replace(worker, host_keys=(pinned,)), user_key, config_files=(config,))


async def test_a_broken_ssh_configuration_is_told(address: WorkerAddress, user_key: UserKey, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n  Port many\n")
    with pytest.raises(BadInput, match="ssh configuration") as caught:
        await connect(address, user_key, config_files=(config,))
    assert "Invalid Port" in caught.value.raw


@pytest.mark.parametrize(
    "part",
    [{"host": "-oProxyCommand=reboot"}, {"host": "a b"}, {"user": "root;id"}, {"alias": "$(id)"}, {"port": 0}],
    ids=str,
)
def test_an_address_takes_nothing_that_a_shell_would_read(part: dict[str, object]) -> None:
    sound = {"host": "10.0.0.2", "port": 22, "user": "ada", "host_keys": (), "alias": "n.us-central1-a.tpu"}
    with pytest.raises(BadInput):
        WorkerAddress(**(sound | part))  # type: ignore[arg-type]


async def test_a_connection_that_was_swallowed_by_a_dead_path_is_not_waited_for(
    address: WorkerAddress, user_key: UserKey
) -> None:
    """As when the path comes back in the middle of an attempt: what was sent before is never answered."""
    arrivals: list[asyncio.StreamWriter] = []

    async def arrive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrivals.append(writer)
        if len(arrivals) > 1:
            there, onward = await asyncio.open_connection("127.0.0.1", address.port)
            await asyncio.wait([asyncio.create_task(pour(reader, onward)), asyncio.create_task(pour(there, writer))])

    path = await asyncio.start_server(arrive, "127.0.0.1", 0)
    port = path.sockets[0].getsockname()[1]
    connection = await connect(dataclasses.replace(address, port=port), user_key, config_files=())
    assert len(arrivals) == 2
    await connection.close()
    path.close()
    for writer in arrivals:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@pytest.mark.parametrize("stall_s", [0.0, 0.5], ids=["no loss", "a packet lost"])
async def test_a_distant_worker_is_connected_to_once(address: WorkerAddress, user_key: UserKey, stall_s: float) -> None:
    """Seven round trips of 0.36 s take longer than the silence after which another connection is begun.

    A lost packet holds back the bytes behind it until TCP has sent it again. The silence that this makes is not half as
    long as that one, for machines that are slow themselves.
    """
    path = FaultProxy(("127.0.0.1", address.port))
    path.listen(("127.0.0.1", 0))
    path.apply(link_fault_from_json({"verb": "latency", "ms": 180}))
    connecting = asyncio.create_task(connect(dataclasses.replace(address, port=path.port), user_key, config_files=()))
    if stall_s:
        await asyncio.wait([connecting], timeout=1.2)
        path.apply(link_fault_from_json({"verb": "stall", "for_s": stall_s}))
    connection = await connecting
    counted = (path.accepted, path.round_trips)
    await connection.close()
    await path.close()
    assert counted == (1, 7)


async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass everything on."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
