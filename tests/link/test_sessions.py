"""The agent's socket, spoken to byte by byte: whatever a client says, the agent serves the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from jupyter_tpu.wire.frames import FROM_AGENT, Frame, FrameDecoder, Kind, encode_frame, encode_json
from jupyter_tpu.wire.hello import client_hello

ANN = "a" * 32


class RawClient:
    """Bytes to the agent, frames from it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._decoder = FrameDecoder(FROM_AGENT)
        self._frames: list[Frame] = []

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def greet(self, client_id: str = ANN, epoch: int = 0) -> None:
        self.write(encode_json(Kind.HELLO, client_hello(client_id, "test", epoch)))

    async def frame(self, kind: Kind) -> Frame:
        """The next frame of a kind."""
        async with asyncio.timeout(60):
            while True:
                for frame in self._frames:
                    if frame.kind == kind:
                        self._frames.remove(frame)
                        return frame
                data = await self._reader.read(65536)
                assert data, "the agent has hung up"
                self._frames += self._decoder.feed(data)

    async def rest(self) -> bytes:
        """Everything until the agent hangs up."""
        try:
            return await asyncio.wait_for(self._reader.read(), 60)
        except ConnectionError:
            return b""

    def close(self) -> None:
        self._writer.close()


Dial = Callable[[], Awaitable[RawClient]]


@pytest.fixture
async def dial(client: Any) -> AsyncIterator[Dial]:
    """Connects to the socket of a running agent."""
    clients: list[RawClient] = []

    async def dial_once() -> RawClient:
        clients.append(RawClient(*await asyncio.open_unix_connection(client.link.agent["socket"])))
        return clients[-1]

    yield dial_once
    for raw in clients:
        raw.close()


GREETING = encode_json(Kind.HELLO, client_hello(ANN, "test"))


NONSENSE = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    encode_frame(Kind.PING),
    encode_frame(Kind.HELLO, payload=b"?"),
    encode_json(Kind.HELLO, {"protocols": [99], "client_id": ANN}),
    encode_json(Kind.HELLO, {"protocols": [1], "client_id": "../.."}),
    GREETING + encode_frame(Kind.DATA, 1, 0, b"x"),
    GREETING + encode_frame(Kind.CALL, payload=b"[]"),
    GREETING + encode_frame(Kind.ATTACH, 1, 0, b"null"),
    GREETING + b"\xff" * 100,
]


async def test_who_breaks_the_protocol_is_hung_up_on_and_nobody_else(client: Any, dial: Dial) -> None:
    for nonsense in NONSENSE:
        raw = await dial()
        raw.write(nonsense)
        await raw.rest()
        assert (await client.link.call("status"))["pid"] == client.link.agent["pid"], nonsense
        assert client.link.state == "live", nonsense


async def test_a_client_that_leaves_without_a_word_does_not_flood_the_log(worker: Any, client: Any, dial: Dial) -> None:
    leaving = await dial()
    leaving.greet()
    await leaving.frame(Kind.HELLO)
    leaving.write(encode_frame(Kind.PING) * 1000)
    leaving.close()
    await client.link.call("status")
    other = await dial()
    other.greet("b" * 32)
    await other.frame(Kind.HELLO)
    assert "socket.send() raised exception" not in (worker.home / ".jupyter-tpu/agent.log").read_text()


async def test_a_client_hears_that_the_agent_lives_while_its_long_message_is_on_its_way(dial: Dial) -> None:
    raw = await dial()
    raw.greet()
    await raw.frame(Kind.HELLO)
    request = encode_frame(Kind.REQUEST, 1, 1, b"x" * 3000)

    async def drip() -> None:
        for byte in request[:-1]:
            raw.write(bytes([byte]))
            await asyncio.sleep(0.1)

    sending = asyncio.create_task(drip())
    await raw.frame(Kind.PONG)
    assert not sending.done()
    sending.cancel()


async def test_requests_for_no_stream_and_odd_acknowledgements_are_ignored(dial: Dial) -> None:
    raw = await dial()
    raw.greet()
    raw.write(encode_frame(Kind.REQUEST, 9, 1, b"?") + encode_frame(Kind.ACK, 9, 77) + encode_frame(Kind.HOLD, 9, 1))
    raw.write(encode_frame(Kind.DETACH, 9) + encode_frame(Kind.PING, number=5))
    assert (await raw.frame(Kind.PONG)).number == 5


async def test_an_acknowledgement_of_what_was_not_sent_is_ignored(client: Any, dial: Dial) -> None:
    await client.start()
    raw = await dial()
    raw.greet()
    raw.write(encode_json(Kind.ATTACH, {"kernel_id": "kernel-1"}, 1, 1))
    await raw.frame(Kind.DATA)
    raw.write(encode_frame(Kind.ACK, 1, 2**60) + encode_frame(Kind.PING, number=6))
    assert (await raw.frame(Kind.PONG)).number == 6


async def test_a_client_that_has_seen_more_than_the_record_holds_is_told(client: Any, dial: Dial) -> None:
    await client.start()
    raw = await dial()
    raw.greet()
    raw.write(encode_json(Kind.ATTACH, {"kernel_id": "kernel-1"}, 1, 10_000))
    refused = await raw.frame(Kind.REFUSED)
    assert "missing from the worker's record of kernel" in refused.json()["error"]["message"]


async def test_a_repeated_call_gets_the_first_answer_again(client: Any, dial: Dial) -> None:
    await client.start()
    raw = await dial()
    raw.greet()
    call = encode_json(Kind.CALL, {"method": "forget_kernel", "params": {"kernel_id": "kernel-1"}}, number=1)
    raw.write(call)
    first = await raw.frame(Kind.RESULT)
    assert "result" in first.json()
    again = await dial()
    again.greet()
    again.write(call)
    assert (await again.frame(Kind.RESULT)).payload == first.payload


async def test_a_client_that_comes_back_ends_its_former_connection(dial: Dial) -> None:
    former = await dial()
    former.greet()
    await former.frame(Kind.NOTICE)
    successor = await dial()
    successor.greet()
    await successor.frame(Kind.HELLO)
    assert await former.rest() == b""


async def test_a_connection_that_arrives_after_its_successor_is_the_one_that_ends(dial: Dial) -> None:
    zombie, successor = await dial(), await dial()
    successor.greet(epoch=2)
    await successor.frame(Kind.NOTICE)
    zombie.greet(epoch=1)
    await zombie.rest()
    successor.write(encode_frame(Kind.PING, number=7))
    assert (await successor.frame(Kind.PONG)).number == 7
