"""Workers are ordinary processes behind a real SSH door, embedded or the machine's own."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from tiers import SSHD_KINDS

from jupyter_tpu.agent.paths import Home
from jupyter_tpu.emulator.workers.process_tree import processes_of

ECHO_SERVER = """\
import os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(os.path.expanduser("~/echo.sock"))
server.listen()
print("listening", flush=True)
while True:
    connection, _ = server.accept()
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.close()
"""


@pytest.fixture(params=SSHD_KINDS)
def cloud(request: Any, make_emulator: Callable[..., Any], connect_cloud: Callable[[Any], Any]) -> Any:
    return connect_cloud(make_emulator("--sshd", request.param))


@pytest.fixture
async def connection(cloud: Any, user_key: Any, login: Any) -> asyncssh.SSHClientConnection:
    await cloud.create(metadata=user_key.metadata)
    (items,) = await cloud.guest_items()
    return await login(items)


def home_of(cloud: Any) -> Path:
    return Path(cloud.control.workers(cloud.emulator.node_name("n1"))[0]["home"])


def token_of(cloud: Any) -> str:
    return cloud.control.workers(cloud.emulator.node_name("n1"))[0]["token"]


async def test_a_login_finds_the_environment_of_its_worker(cloud: Any, connection: Any) -> None:
    program = (
        "import os; e = os.environ; "
        "print(os.getcwd(), e['HOME'], e['TPU_ACCELERATOR_TYPE'], e['TPU_WORKER_ID'], e['JUPYTER_TPU_EMULATED'])"
    )
    done = await connection.run(f'python3 -c "{program}"', check=True)

    home = str(home_of(cloud))
    assert done.stdout.split() == [home, home, "v5litepod-8", "0", "1"]


async def test_the_emulators_files_are_closed_and_a_login_has_the_users_umask(cloud: Any, connection: Any) -> None:
    users = os.umask(0)
    os.umask(users)
    assert int((await connection.run("umask", check=True)).stdout, 8) == users
    state = cloud.emulator.state_dir
    # the commands of the image are anybody's, the home is the worker's, and the log is the test's own
    not_its_own = {state / "image", state / "emulator.log", home_of(cloud)}
    files = [
        path for path in state.rglob("*") if path.is_file() and not not_its_own.intersection((path, *path.parents))
    ]
    assert {"cloud.db"} <= {path.name for path in files}
    assert [path for path in files if path.stat().st_mode & 0o077] == []


async def test_the_login_environment_holds_nothing_of_the_emulators_own(connection: Any) -> None:
    names = (await connection.run("env | cut -d= -f1", check=True)).stdout.split()

    foreign = [name for name in names if name.startswith(("PYTEST", "PYTHON", "SSH_AUTH", "GOOGLE", "JUPYTER_DATA"))]
    assert foreign == ["PYTHONPATH"]


async def test_all_that_python_path_adds_on_a_worker_is_the_way_to_its_chips(connection: Any) -> None:
    listed = (await connection.run('ls -I "__*" "$PYTHONPATH"', check=True)).stdout.split()

    assert listed == ["emulated_tpu.py", "jax_plugins"]


async def test_exit_status_output_and_error_come_back_apart(connection: Any) -> None:
    done = await connection.run("cat; echo problem >&2; exit 7", input="data\n")

    assert (done.stdout, done.stderr, done.exit_status) == ("data\n", "problem\n", 7)


async def test_a_command_killed_by_a_signal_says_so(connection: Any) -> None:
    done = await connection.run("kill -TERM $$")

    assert done.exit_signal is not None
    assert done.exit_signal[0] == "TERM"


async def test_megabytes_pass_both_ways_unchanged(connection: Any) -> None:
    data = os.urandom(4 * 1024 * 1024)

    done = await connection.run("cat", input=data, encoding=None, check=True)

    assert done.stdout == data


async def test_a_shell_on_a_terminal_runs_what_is_typed(connection: Any) -> None:
    process = await connection.create_process(term_type="xterm", term_size=(91, 33))
    process.stdin.write("stty size; tty; exit 5\n")

    done = await asyncio.wait_for(process.wait(), 120)

    assert "33 91" in done.stdout
    assert "/dev/" in done.stdout
    assert done.exit_status == 5


async def test_a_unix_socket_in_the_home_is_reached_through_the_connection(cloud: Any, connection: Any) -> None:
    server = await connection.create_process("python3 -", stderr=asyncssh.STDOUT)
    server.stdin.write(ECHO_SERVER)
    server.stdin.write_eof()
    assert await asyncio.wait_for(server.stdout.readline(), 120) == "listening\n"

    reader, writer = await connection.open_unix_connection(str(home_of(cloud) / "echo.sock"))
    writer.write(b"x" * 1_000_000)

    assert await asyncio.wait_for(reader.readexactly(1_000_000), 120) == b"x" * 1_000_000
    writer.close()


async def test_a_tcp_port_on_the_workers_loopback_is_reached_through_the_connection(connection: Any) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        reader, writer = await connection.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
        assert await asyncio.wait_for(reader.read(), 120) == b"hello"
        writer.close()


async def test_a_daemon_outlives_its_login(cloud: Any, connection: Any) -> None:
    daemon = await connection.run("setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!", check=True)
    connection.close()
    await connection.wait_closed()

    assert int(daemon.stdout) in [process.pid for process in processes_of([token_of(cloud)])]


@pytest.mark.parametrize("verb", ["stop", "delete", "preempt"])
async def test_every_process_of_a_worker_ends_with_it(cloud: Any, connection: Any, verb: str) -> None:
    await connection.run("setsid sleep 1000 </dev/null >/dev/null 2>&1 & touch ~/mine", check=True)
    await connection.create_process("sleep 1001")
    home, token = home_of(cloud), token_of(cloud)

    if verb == "preempt":
        cloud.control.preempt(cloud.emulator.node_name("n1"))
    else:
        await getattr(cloud, verb)()

    await asyncio.wait_for(connection.wait_closed(), 120)
    assert processes_of([token]) == []
    assert home.exists() == (verb != "delete")


def until_files_go(folder: Path, before: int) -> None:
    with suppress(FileNotFoundError):  # it may have gone as a whole between two looks
        while len(list(folder.iterdir())) == before:
            time.sleep(0.001)


async def test_a_reset_bears_with_a_node_that_is_being_deleted(cloud: Any, connection: Any) -> None:
    home = home_of(cloud)
    for number in range(1000):
        (home / str(number)).mkdir()
    before = len(list(home.iterdir()))
    await cloud.client.delete_node(name=cloud.emulator.node_name("n1"))
    await asyncio.to_thread(until_files_go, home, before)

    await asyncio.to_thread(cloud.control.reset)

    assert not home.exists()


@pytest.mark.parametrize("node_id", ["short", "n" * 60])
async def test_a_deleted_node_leaves_no_sockets_of_its_agent(
    make_emulator: Callable[..., Any], connect_cloud: Callable[[Any], Any], node_id: str
) -> None:
    cloud = connect_cloud(make_emulator())
    await cloud.create(node_id)
    home = Path(cloud.control.workers(cloud.emulator.node_name(node_id))[0]["home"])
    agent = Home(home / ".jupyter-tpu")
    agent.make()
    await cloud.delete(node_id)
    assert not agent.run.exists()


async def test_a_stopped_node_comes_back_with_its_files_and_host_key(cloud: Any, connection: Any, login: Any) -> None:
    await connection.run("echo precious > kept", check=True)
    (before,) = await cloud.guest_items()

    await cloud.stop()
    assert await cloud.guest_items() == [{}]
    await cloud.start()

    (after,) = await cloud.guest_items()
    assert after == before
    done = await (await login(after)).run("cat kept", check=True)
    assert done.stdout == "precious\n"


async def test_only_keys_of_the_metadata_may_log_in(cloud: Any, connection: Any, login: Any) -> None:
    (items,) = await cloud.guest_items()
    stranger = asyncssh.generate_private_key("ssh-ed25519")

    with pytest.raises(asyncssh.PermissionDenied):
        await login(items, client_keys=[stranger])
    with pytest.raises(asyncssh.PermissionDenied):
        await login(items, username="somebody-else")


async def test_a_key_that_is_added_later_may_log_in(cloud: Any, connection: Any, login: Any, user_key: Any) -> None:
    from google.cloud import tpu_v2
    from google.protobuf.field_mask_pb2 import FieldMask

    other = asyncssh.generate_private_key("ssh-ed25519")
    line = f"{user_key.metadata['ssh-keys'].partition(':')[0]}:{other.export_public_key().decode().strip()}"
    node = tpu_v2.Node(name=cloud.emulator.node_name("n1"), metadata={"ssh-keys": line})
    operation = await cloud.client.update_node(node=node, update_mask=FieldMask(paths=["metadata"]))
    await operation.result(timeout=120)

    (items,) = await cloud.guest_items()
    assert (await (await login(items, client_keys=[other])).run("true")).exit_status == 0
    with pytest.raises(asyncssh.PermissionDenied):
        await login(items)


async def test_openssh_logs_in_with_the_host_key_pinned(cloud: Any, user_key: Any, tmp_path: Path) -> None:
    await cloud.create(metadata=user_key.metadata)
    (items,) = await cloud.guest_items()
    port = items["emulator/ssh-port"]
    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.0.1]:{port} ssh-ed25519 {items['hostkeys/ssh-ed25519']}\n")
    options = [f"UserKnownHostsFile={known}", "StrictHostKeyChecking=yes", "IdentitiesOnly=yes", "BatchMode=yes"]
    argv = ["ssh", "-F", "none", "-p", port, "-i", str(user_key.path), *(f"-o{option}" for option in options)]

    process = await asyncio.create_subprocess_exec(
        *argv, "127.0.0.1", "cat && exit 3", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(process.communicate(b"over OpenSSH"), 120)

    assert (output, process.returncode) == (b"over OpenSSH", 3)


async def test_openssh_forwards_a_unix_socket(cloud: Any, connection: Any, user_key: Any, tmp_path: Path) -> None:
    server = await connection.create_process("python3 -")
    server.stdin.write(ECHO_SERVER)
    server.stdin.write_eof()
    await asyncio.wait_for(server.stdout.readline(), 120)
    (items,) = await cloud.guest_items()
    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.0.1]:{items['emulator/ssh-port']} ssh-ed25519 {items['hostkeys/ssh-ed25519']}\n")
    local = home_of(cloud).parent / "local.sock"
    argv = ["ssh", "-F", "none", "-p", items["emulator/ssh-port"], "-i", str(user_key.path), "-o", "BatchMode=yes"]
    argv += ["-o", f"UserKnownHostsFile={known}", "-o", "IdentitiesOnly=yes", "-o", "ExitOnForwardFailure=yes"]
    forward = f"{local}:{home_of(cloud) / 'echo.sock'}"

    # the forward stands when the remote command has answered
    process = await asyncio.create_subprocess_exec(
        *argv, "-L", forward, "127.0.0.1", "echo up; cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert await asyncio.wait_for(process.stdout.readline(), 120) == b"up\n"
        reader, writer = await asyncio.open_unix_connection(str(local))
        writer.write(b"through")
        assert await asyncio.wait_for(reader.readexactly(7), 120) == b"through"
        writer.close()
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def test_a_changed_host_key_does_not_match_the_published_one(cloud: Any, connection: Any, login: Any) -> None:
    cloud.control.change_host_key(cloud.emulator.node_name("n1"))
    (items,) = await cloud.guest_items()

    with pytest.raises(asyncssh.HostKeyNotVerifiable):
        await login(items)


async def test_a_closed_door_refuses_connections_until_it_is_opened(cloud: Any, connection: Any, login: Any) -> None:
    (items,) = await cloud.guest_items()
    name = cloud.emulator.node_name("n1")

    cloud.control.close_ssh(name)
    with pytest.raises(ConnectionRefusedError):
        await login(items)

    cloud.control.open_ssh(name)
    assert (await (await login(items)).run("true")).exit_status == 0
