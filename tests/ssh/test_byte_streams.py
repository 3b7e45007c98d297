"""Byte streams to the agent's socket over real SSH: to a program that gets the connection, and to a port."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.agent.flow_stream import FlowStream
from jupyter_tpu.agent.kernels.process import ReportedExits
from jupyter_tpu.agent.ports.methods import Ports
from jupyter_tpu.agent.session import Session
from jupyter_tpu.agent.stream_targets import StreamTargets
from jupyter_tpu.errors import AgentBroken, BadInput, WorkerUnreachable
from jupyter_tpu.link.byte_streams import open_byte_stream
from jupyter_tpu.ssh import SshConnection

from .conftest import free_port

MIB = 1 << 20

PROGRAM = """
import os, sys
from jupyter_tpu.agent.socket_stream import SocketStream, exit_with_agent
exit_with_agent()
stream = SocketStream.accept(int(sys.argv[1]))
name = os.path.basename(sys.argv[2])
if name == "crash":
    stream.read(1)
    os._exit(3)
elif name.startswith("flood"):
    for n in range(64):
        stream.write(bytes([n]) * (1 << 20))
elif name == "count":
    count = 0
    while piece := stream.read(1 << 20):
        count += len(piece)
    stream.write(b"%d" % count)
else:
    stream.write(b"%d of %s says " % (os.getpid(), name.encode()))
    while data := stream.read(100):
        stream.write(data.upper())
stream.close()
"""


class RelayedConnection:
    """An SSH connection whose server forbids forwarding to Unix sockets."""

    def __init__(self, connection: SshConnection) -> None:
        self.execute = connection.execute
        self.close = connection.close

    async def open_unix(self, path: str) -> Any:
        raise OSError("administratively prohibited")


class Agent:
    """The part of the agent that opens streams, on a socket."""

    def __init__(self, folder: Path, program: list[str]) -> None:
        self.path = str(folder / "agent.sock")
        self.ports = Ports(folder / "ports.json")
        self.targets = StreamTargets(ReportedExits(), self.ports, program)
        self._served: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._served.add(task)
        session = Session(None, None, None, {}, dict, lambda _session: None, reader, writer)  # type: ignore[arg-type]
        try:
            await session.run()
            if session.target:
                await self.targets.connect(session.target, reader, writer)
        except asyncio.CancelledError:  # before Python 3.12, asyncio logs a cancelled handler as an error
            pass
        finally:
            self._served.discard(task)

    async def close(self) -> None:
        self._server.close()
        for task in tuple(self._served):
            task.cancel()
        if self._served:
            await asyncio.wait(self._served)
        await asyncio.sleep(0)  # asyncio closes a socket in the next iteration of the loop


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Agent]:
    (tmp_path / "program.py").write_text(PROGRAM)
    agent = Agent(tmp_path, [sys.executable, str(tmp_path / "program.py")])
    await agent.open()
    yield agent
    await agent.close()


@pytest.fixture(params=["forwarded", "relayed"])
def route(request: pytest.FixtureRequest, connection: SshConnection) -> Any:
    """The connection, directly to the socket or through a relay."""
    return connection if request.param == "forwarded" else RelayedConnection(connection)


async def read_all(stream: FlowStream) -> bytes:
    pieces = []
    while piece := await stream.read(MIB):
        pieces.append(piece)
    return b"".join(pieces)


async def test_the_program_of_a_folder_gets_the_connection_itself(route: Any, agent: Agent) -> None:
    stream = await open_byte_stream(route, agent.path, {"files": "folder-1"})
    stream.write(b"hello")
    answer = await stream.read(100)
    while not answer.endswith(b"HELLO"):
        answer += await stream.read(100)
    pid, _, rest = answer.partition(b" ")
    assert rest == b"of folder-1 says HELLO"
    assert os.getpgid(int(pid)) == int(pid)
    stream.write_eof()
    assert await read_all(stream) == b""
    stream.close()


async def test_megabytes_pass_both_ways_while_another_stream_waits(route: Any, agent: Agent) -> None:
    flood = await open_byte_stream(route, agent.path, {"files": "flood"})
    # Nobody reads the flood now; the connection still has room for others.
    count = await open_byte_stream(route, agent.path, {"files": "count"})
    for _ in range(16):
        count.write(bytes(MIB))
        await count.drain()
    count.write_eof()
    assert int(await read_all(count)) == 16 * MIB
    assert await read_all(flood) == b"".join(bytes([n]) * MIB for n in range(64))
    for stream in (flood, count):
        stream.close()


async def test_a_program_that_crashes_is_no_end_of_the_data(connection: SshConnection, agent: Agent) -> None:
    stream = await open_byte_stream(connection, agent.path, {"files": "crash"})
    stream.write(b"!")
    with pytest.raises(WorkerUnreachable, match="was lost"):
        await stream.read(1)


async def test_a_program_that_does_not_start_is_told(connection: SshConnection, tmp_path: Path) -> None:
    for program, message in (["/nowhere/python"], "did not start"), ([sys.executable, "-c", "1/0"], "ended at once"):
        agent = Agent(tmp_path, program)
        await agent.open()
        with pytest.raises(AgentBroken, match=message):
            await open_byte_stream(connection, agent.path, {"files": "folder"})
        await agent.close()


async def test_a_new_stream_to_a_folder_ends_the_old_one(connection: SshConnection, agent: Agent) -> None:
    older = await open_byte_stream(connection, agent.path, {"files": "folder"})
    newer = await open_byte_stream(connection, agent.path, {"files": "folder"})
    with pytest.raises(WorkerUnreachable):
        await read_all(older)
    newer.write(b"still here")
    assert await newer.read(1)
    newer.close()


async def test_the_program_ends_with_the_agent(connection: SshConnection, agent: Agent) -> None:
    stream = await open_byte_stream(connection, agent.path, {"files": "folder"})
    await agent.close()
    with pytest.raises(WorkerUnreachable):
        await read_all(stream)


async def test_a_cut_ends_every_stream(connection: SshConnection, agent: Agent) -> None:
    streams = [await open_byte_stream(connection, agent.path, {"files": f"flood-{n}"}) for n in range(5)]
    for stream in streams:
        assert await stream.read(1) == b"\0"
    await connection.close()
    for stream in streams:
        with pytest.raises(WorkerUnreachable):
            await read_all(stream)


@pytest.fixture
async def echo_port(agent: Agent) -> AsyncIterator[int]:
    """A program of the user that sends back what it gets."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(MIB):
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await agent.ports.open_port({"port": port})
        yield port


async def test_many_streams_to_a_port_keep_their_bytes_apart(
    connection: SshConnection, agent: Agent, echo_port: int
) -> None:
    async def talk(n: int) -> None:
        stream = await open_byte_stream(connection, agent.path, {"port": echo_port})
        said = bytes([n]) * (n * 1000 + 1)
        stream.write(said)
        stream.write_eof()
        assert await read_all(stream) == said
        stream.close()

    await asyncio.gather(*(talk(n) for n in range(100)))


async def test_more_than_a_window_is_echoed_through_a_port(route: Any, agent: Agent, echo_port: int) -> None:
    stream = await open_byte_stream(route, agent.path, {"port": echo_port})
    said = os.urandom(4 * MIB)
    stream.write(said)
    stream.write_eof()
    assert await read_all(stream) == said
    stream.close()


async def test_a_port_on_ipv6_is_found(connection: SshConnection, agent: Agent) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    async with await asyncio.start_server(greet, "::1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await agent.ports.open_port({"port": port})
        stream = await open_byte_stream(connection, agent.path, {"port": port})
        assert await read_all(stream) == b"hello"
        stream.close()


async def test_a_port_where_nobody_listens_is_told(connection: SshConnection, agent: Agent) -> None:
    port = free_port()
    await agent.ports.open_port({"port": port})
    with pytest.raises(BadInput, match="No process listens on port"):
        await open_byte_stream(connection, agent.path, {"port": port})


async def test_only_an_opened_port_can_be_reached(connection: SshConnection, agent: Agent, echo_port: int) -> None:
    stream = await open_byte_stream(connection, agent.path, {"port": echo_port})
    await agent.ports.close_port({"port": echo_port})
    with pytest.raises(WorkerUnreachable):  # closing the port ends its connections
        await read_all(stream)
    with pytest.raises(BadInput, match="is not open"):
        await open_byte_stream(connection, agent.path, {"port": echo_port})


@pytest.fixture
def strangers_port() -> Iterator[int]:
    """A port on which a process of another user listens."""
    port = free_port()
    listen = f"import socket; s = socket.create_server(('127.0.0.1', {port})); print('x', flush=True); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen(["/usr/bin/python3", "-c", listen], user=65534, stdin=pipe, stdout=pipe) as stranger:
        assert stranger.stdout
        stranger.stdout.readline()
        yield port
        assert stranger.stdin
        stranger.stdin.write(b"\n")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run a program as another user")
async def test_a_port_of_another_user_is_refused(connection: SshConnection, agent: Agent, strangers_port: int) -> None:
    await agent.ports.open_port({"port": strangers_port})
    with pytest.raises(BadInput, match="belongs to another user"):
        await open_byte_stream(connection, agent.path, {"port": strangers_port})
