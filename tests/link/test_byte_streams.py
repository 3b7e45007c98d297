"""Byte streams beside a link: they end with its connection, and new ones can be opened when it is back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from jupyter_tpu.errors import BadInput, WorkerUnreachable
from jupyter_tpu.wire.file_messages import MessageDecoder, encode_message

MIB = 1 << 20


@pytest.fixture
async def source_port() -> AsyncIterator[int]:
    """A program that sends bytes for ever."""
    writers: list[asyncio.StreamWriter] = []

    async def pour(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with suppress(ConnectionError):
            while True:
                writer.write(bytes(MIB))
                await writer.drain()

    async with await asyncio.start_server(pour, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        for writer in writers:
            writer.transport.abort()  # what nobody has read is not sent any more
            with suppress(ConnectionError):
                await writer.wait_closed()


async def read_to_the_end(stream: Any) -> None:
    while await stream.read(MIB):
        pass


async def test_calls_are_answered_beside_streams_that_nobody_reads(open_link: Any, source_port: int) -> None:
    link = await open_link()
    await link.call("open_port", {"port": source_port})
    streams = [await link.open_stream({"port": source_port}) for _ in range(20)]
    assert (await link.call("status"))["pid"] == link.agent["pid"]
    for stream in streams:
        assert await stream.read(1) == b"\0"
        stream.close()


async def test_a_folder_below_the_home_is_served(worker: Any, open_link: Any) -> None:
    (worker.home / "project").mkdir()
    link = await open_link()
    stream = await link.open_stream({"files": "project"})
    stream.write(encode_message({"op": "hello"}))
    decoder = MessageDecoder()
    replies: list[Any] = []
    while not replies:
        replies += decoder.feed(await stream.read(MIB))
    assert "error" not in replies[0][0]
    assert (worker.home / "project" / ".jupyter-tpu").is_dir()
    stream.close()


async def test_a_cut_ends_a_stream_and_the_next_one_opens_when_the_link_is_back(
    worker: Any, open_link: Any, source_port: int
) -> None:
    link = await open_link()
    await link.call("open_port", {"port": source_port})
    for _ in range(3):
        stream = await link.open_stream({"port": source_port})
        assert await stream.read(1) == b"\0"
        worker.cut()
        with pytest.raises(WorkerUnreachable, match="was lost"):
            await read_to_the_end(stream)
        await link.call("status")


async def test_a_killed_agent_ends_a_stream_and_the_next_agent_opens_one(
    worker: Any, open_link: Any, source_port: int
) -> None:
    link = await open_link()
    await link.call("open_port", {"port": source_port})
    stream = await link.open_stream({"port": source_port})
    worker.kill(link.agent["pid"])
    with pytest.raises(WorkerUnreachable, match="was lost"):
        await read_to_the_end(stream)
    await link.call("status")
    again = await link.open_stream({"port": source_port})
    assert await again.read(1) == b"\0"


async def test_the_return_of_a_link_can_be_awaited(worker: Any, open_link: Any, source_port: int) -> None:
    states: list[str] = []
    gone = asyncio.Event()

    def on_state(state: str, _error: object, _since: float) -> None:
        states.append(state)
        if state == "down":
            gone.set()

    link = await open_link(on_state=on_state)
    worker.cut()
    await gone.wait()
    await link.wait_up()
    await link.call("open_port", {"port": source_port})
    assert states[-1] in ("resuming", "live")
    stream = await link.open_stream({"port": source_port})
    assert await stream.read(1) == b"\0"


async def test_the_end_of_the_link_ends_its_streams(open_link: Any, source_port: int) -> None:
    link = await open_link()
    await link.call("open_port", {"port": source_port})
    stream = await link.open_stream({"port": source_port})
    await link.close()
    with pytest.raises(WorkerUnreachable):
        await read_to_the_end(stream)
    for attempt in link.wait_up(), link.open_stream({"port": source_port}):
        with pytest.raises(WorkerUnreachable):
            await attempt


async def test_a_stream_is_opened_by_a_relay_where_sockets_are_not_forwarded(
    worker: Any, open_link: Any, source_port: int
) -> None:
    worker.forbids_forwarding = True
    link = await open_link()
    await link.call("open_port", {"port": source_port})
    stream = await link.open_stream({"port": source_port})
    assert await stream.read(1) == b"\0"
    stream.close()


async def test_a_port_without_a_program_is_told_and_the_link_stays(open_link: Any, free_tcp_port: int) -> None:
    link = await open_link()
    await link.call("open_port", {"port": free_tcp_port})
    with pytest.raises(BadInput, match="No process listens on port"):
        await link.open_stream({"port": free_tcp_port})
    assert link.state == "live"


@pytest.fixture
async def free_tcp_port() -> int:
    async with await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0) as server:
        return int(server.sockets[0].getsockname()[1])


async def test_ports_are_listed_with_their_processes(open_link: Any, source_port: int) -> None:
    link = await open_link()
    rows = {row["port"]: row for row in (await link.call("list_ports"))["ports"]}
    assert not rows[source_port]["opened"]
    assert os.getpid() in [process["pid"] for process in rows[source_port]["processes"]]
    rows = {row["port"]: row for row in (await link.call("open_port", {"port": source_port}))["ports"]}
    assert rows[source_port]["opened"]


async def test_an_opened_port_is_open_for_the_next_agent_too(worker: Any, open_link: Any, source_port: int) -> None:
    link = await open_link()
    await link.call("open_port", {"port": source_port})
    worker.kill(link.agent["pid"])
    rows = (await link.call("list_ports"))["ports"]
    assert [row["port"] for row in rows if row["opened"]] == [source_port]


@pytest.mark.parametrize("port", [0, 65536, "80", None, True, 80.0])
async def test_what_is_no_port_is_refused(open_link: Any, port: Any) -> None:
    link = await open_link()
    with pytest.raises(BadInput, match="whole number"):
        await link.call("open_port", {"port": port})
