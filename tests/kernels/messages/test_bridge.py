"""The local sockets of a kernel, with a stream that only notes what it is given."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import zmq
import zmq.asyncio
from jupyter_client.session import Session

from jupyter_tpu.errors import BadInput
from jupyter_tpu.kernels.messages.local_ports import (
    CHANNELS,
    Addresses,
    IpcAddresses,
    PortTaken,
    TcpAddresses,
    addresses_of,
)
from jupyter_tpu.kernels.messages.zmq_bridge import Bridge, Secrets


class NotedStream:
    """A kernel's stream without a kernel."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[tuple[str, list[bytes]]] = asyncio.Queue()
        self.is_held = False
        self.are_replies_let_past = asyncio.Event()
        self.changed = asyncio.Event()

    def send(self, channel: Any, parts: Sequence[bytes]) -> None:
        self.requests.put_nowait((channel, list(parts)))

    def hold(self) -> None:
        self.is_held = True
        self.changed.set()

    def resume(self) -> None:
        self.is_held = False
        self.changed.set()

    def let_replies_pass(self) -> None:
        self.are_replies_let_past.set()


class PickyStream(NotedStream):
    """Takes no request that says it is unwanted."""

    def send(self, channel: Any, parts: Sequence[bytes]) -> None:
        if parts[-1] == b"unwanted":
            raise ValueError("unwanted")
        super().send(channel, parts)


class Client:
    """The sockets of one front end."""

    def __init__(self, addresses: Addresses, identity: bytes = b"client") -> None:
        self._addresses = addresses
        self._identity = identity
        self._context = zmq.asyncio.Context()
        self._sockets: list[zmq.asyncio.Socket] = []

    def connect(self, kind: int, channel: str, receive_queue: int = 1000) -> zmq.asyncio.Socket:
        end = self._context.socket(kind)
        self._sockets.append(end)
        end.linger = 0
        end.rcvhwm = receive_queue
        if kind == zmq.DEALER:
            end.identity = self._identity
        if kind == zmq.SUB:
            end.subscribe(b"")
        separator = "-" if self._addresses.transport == "ipc" else ":"
        port = self._addresses.ports[f"{channel}_port"]
        end.connect(f"{self._addresses.transport}://{self._addresses.ip}{separator}{port}")
        return end

    def close(self) -> None:
        for end in self._sockets:
            end.close()
        self._context.term()


@pytest.fixture(params=[IpcAddresses, TcpAddresses])
def addresses(request: pytest.FixtureRequest) -> Addresses:
    made: Addresses = request.param()
    return made


@pytest.fixture
async def bridge(addresses: Addresses) -> AsyncIterator[Bridge]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    bridge = Bridge(addresses, Secrets(key=b"key"), context)
    bridge.open()
    yield bridge
    bridge.close()
    context.destroy(linger=0)


@pytest.fixture
async def client(addresses: Addresses) -> AsyncIterator[Client]:
    client = Client(addresses)
    yield client
    client.close()


async def welcomed(client: Client, receive_queue: int = 1000) -> zmq.asyncio.Socket:
    """A subscriber that the bridge knows."""
    end = client.connect(zmq.SUB, "iopub", receive_queue)
    message = await asyncio.wait_for(end.recv_multipart(), 60)
    assert Session(key=b"key").deserialize(message[1:])["msg_type"] == "iopub_welcome"
    return end


async def test_a_kernel_that_has_started_and_is_asked_nothing_is_idle(bridge: Bridge, client: Client) -> None:
    end, session = await welcomed(client), Session(key=b"key")
    bridge.deliver(1, "iopub", [b"status", *session.serialize(session.msg("status", {"execution_state": "starting"}))])
    states = [session.deserialize(session.feed_identities(await end.recv_multipart())[1]) for _ in range(2)]
    assert [state["content"]["execution_state"] for state in states] == ["starting", "idle"]


@pytest.mark.parametrize("channel", ["shell", "control", "stdin"])
async def test_a_request_carries_its_senders_identity(
    bridge: Bridge, addresses: Addresses, client: Client, channel: str
) -> None:
    stream = NotedStream()
    bridge.join(stream)
    end = client.connect(zmq.DEALER, channel)
    await end.send_multipart([b"<IDS|MSG>", b"hello"])
    assert await asyncio.wait_for(stream.requests.get(), 60) == (channel, [b"client", b"<IDS|MSG>", b"hello"])


async def test_requests_made_before_the_kernel_is_up_are_kept_in_order(
    bridge: Bridge, addresses: Addresses, client: Client
) -> None:
    end = client.connect(zmq.DEALER, "shell")
    heart = client.connect(zmq.REQ, "hb")
    for number in range(3):
        await end.send_multipart([b"%d" % number])
    await heart.send(b"ping")
    await asyncio.wait_for(heart.recv(), 60)
    stream = NotedStream()
    bridge.join(stream)
    got = [await asyncio.wait_for(stream.requests.get(), 60) for _ in range(3)]
    assert [parts[1] for _, parts in got] == [b"0", b"1", b"2"]


async def test_a_reply_reaches_only_the_client_it_is_for(bridge: Bridge, addresses: Addresses, client: Client) -> None:
    other = Client(addresses, b"other")
    stream = NotedStream()
    bridge.join(stream)
    ours, theirs = client.connect(zmq.DEALER, "shell"), other.connect(zmq.DEALER, "shell")
    for end in (ours, theirs):
        await end.send(b"hello")
        await asyncio.wait_for(stream.requests.get(), 60)
    bridge.deliver(1, "shell", [b"other", b"for you"])
    bridge.deliver(1, "shell", [b"client", b"for me"])
    assert await asyncio.wait_for(ours.recv(), 60) == b"for me"
    assert await asyncio.wait_for(theirs.recv(), 60) == b"for you"
    other.close()


async def test_the_heartbeat_is_answered_without_a_kernel(bridge: Bridge, addresses: Addresses, client: Client) -> None:
    end = client.connect(zmq.REQ, "hb")
    await end.send(b"ping")
    assert await asyncio.wait_for(end.recv(), 60) == b"ping"


async def test_output_reaches_every_subscriber(bridge: Bridge, addresses: Addresses, client: Client) -> None:
    other = Client(addresses, b"other")
    sockets = [await welcomed(client), await welcomed(other)]
    bridge.deliver(1, "iopub", [b"topic", b"output"])
    for end in sockets:
        while (message := await asyncio.wait_for(end.recv_multipart(), 60))[0] != b"topic":
            pass
        assert message == [b"topic", b"output"]
    other.close()


async def test_a_subscriber_is_welcomed_before_what_the_kernel_says_meanwhile(bridge: Bridge, client: Client) -> None:
    end = client.connect(zmq.SUB, "iopub")
    with zmq.Socket.shadow(end) as blocking:
        while not blocking.poll(1):  # the loop gets no turn
            bridge.deliver(1, "iopub", [b"topic", b"output"])
        message = blocking.recv_multipart()
    assert Session(key=b"key").deserialize(message[1:])["msg_type"] == "iopub_welcome"


@pytest.mark.parametrize("garbled", [b"", b"[]", b"{"])
async def test_what_is_said_of_the_link_stands_in_the_cell_that_spoke_last(
    bridge: Bridge, client: Client, garbled: bytes
) -> None:
    session = Session(key=b"")
    end = await welcomed(client)
    request = session.msg("execute_request")
    bridge.deliver(1, "iopub", session.serialize(session.msg("status", {"execution_state": "busy"}, parent=request)))
    bridge.print_notice("the disk is full")
    bridge.deliver(1, "iopub", [b"<IDS|MSG>", b"", b"{}", garbled, b"{}", b"{}"])
    bridge.print_notice("the disk is still full")
    said = [await next_stream(end), await next_stream(end)]
    assert [parent.get("msg_id") for parent in said] == [request["header"]["msg_id"], None]


async def test_what_is_known_of_a_kernel_is_answered_for_it_until_it_is_asked_something_else(
    bridge: Bridge, client: Client
) -> None:
    session, stream = Session(key=b"key"), NotedStream()
    iopub, shell = await welcomed(client), client.connect(zmq.DEALER, "shell")
    bridge.join(stream, {"implementation": "ipython"})
    await shell.send_multipart(session.serialize(session.msg("kernel_info_request")))
    reply = session.deserialize(session.feed_identities(await asyncio.wait_for(shell.recv_multipart(), 60))[1])
    assert (reply["msg_type"], reply["content"]) == ("kernel_info_reply", {"implementation": "ipython"})
    states = [session.deserialize(session.feed_identities(await iopub.recv_multipart())[1]) for _ in range(2)]
    assert [state["content"]["execution_state"] for state in states] == ["busy", "idle"]
    assert {state["parent_header"]["msg_id"] for state in states} == {reply["parent_header"]["msg_id"]}
    for kind in ("execute_request", "kernel_info_request"):
        await shell.send_multipart(session.serialize(session.msg(kind)))
        await asyncio.wait_for(stream.requests.get(), 60)


async def test_a_kernel_that_has_spoken_answers_for_itself(bridge: Bridge, client: Client) -> None:
    session, stream = Session(key=b"key"), NotedStream()
    bridge.join(stream, {"implementation": "ipython"})
    bridge.deliver(1, "iopub", session.serialize(session.msg("status", {"execution_state": "busy"})))
    await client.connect(zmq.DEALER, "shell").send_multipart(session.serialize(session.msg("kernel_info_request")))
    await asyncio.wait_for(stream.requests.get(), 60)


async def test_a_request_with_a_wrong_signature_is_not_answered_for_the_kernel(bridge: Bridge, client: Client) -> None:
    session, stream = Session(key=b"another key"), NotedStream()
    bridge.join(stream, {"implementation": "ipython"})
    await client.connect(zmq.DEALER, "shell").send_multipart(session.serialize(session.msg("kernel_info_request")))
    await asyncio.wait_for(stream.requests.get(), 60)


async def next_stream(end: zmq.asyncio.Socket) -> dict[str, Any]:
    """The parent header of the next thing printed."""
    while True:
        parts = await asyncio.wait_for(end.recv_multipart(), 60)
        _, header, parent = parts[parts.index(b"<IDS|MSG>") + 1 :][:3]
        if json.loads(header).get("msg_type") == "stream":
            return dict(json.loads(parent))


async def test_a_slow_subscriber_holds_the_stream_and_loses_nothing(
    bridge: Bridge, addresses: Addresses, client: Client
) -> None:
    stream = NotedStream()
    bridge.join(stream)
    end = await welcomed(client, receive_queue=10)
    count, body = 0, b"x" * 10_000
    while not stream.is_held:
        bridge.deliver(1, "iopub", [b"%d" % count, body])
        count += 1
        await asyncio.sleep(0)
    for number in range(count):
        assert (await asyncio.wait_for(end.recv_multipart(), 60))[0] == b"%d" % number
    while stream.is_held:
        stream.changed.clear()
        await asyncio.wait_for(stream.changed.wait(), 60)


async def test_output_does_not_overtake_what_waits_when_a_slow_subscriber_has_read(
    bridge: Bridge, addresses: Addresses, client: Client
) -> None:
    stream = NotedStream()
    bridge.join(stream)
    end = await welcomed(client, receive_queue=10)
    count, body, heard = 0, b"x" * 10_000, list[bytes]()
    while not stream.is_held:
        bridge.deliver(1, "iopub", [b"%d" % count, body])
        count += 1
        await asyncio.sleep(0)
    blocking = zmq.Socket.shadow(end)
    while blocking.poll(200):  # the loop gets no turn, and sends nothing of what waits
        heard.append(blocking.recv_multipart()[0])
    for number in range(count, count + 10):
        bridge.deliver(1, "iopub", [b"%d" % number, body])
    while len(heard) < count + 10:
        heard.append((await asyncio.wait_for(end.recv_multipart(), 60))[0])
    assert heard == [b"%d" % number for number in range(count + 10)]


async def test_a_subscriber_that_never_reads_does_not_stop_the_others(addresses: Addresses, client: Client) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    bridge = Bridge(addresses, Secrets(key=b"key"), context, patience_s=0.5)
    bridge.open()
    stream = NotedStream()
    bridge.join(stream)
    sleeper = Client(addresses, b"sleeper")
    await welcomed(sleeper, receive_queue=10)
    reader = await welcomed(client)
    count, body = 0, b"x" * 10_000
    while not stream.is_held:  # without a turn of the loop, in which patience could end before the stream is held
        bridge.deliver(1, "iopub", [b"%d" % count, body])
        count += 1
    seen = 0
    while seen < count:
        message = await asyncio.wait_for(reader.recv_multipart(), 60)
        if len(message) == 2:
            assert message[0] == b"%d" % seen
            seen += 1
    while stream.is_held:
        stream.changed.clear()
        await asyncio.wait_for(stream.changed.wait(), 60)
    sleeper.close()
    bridge.close()
    context.destroy(linger=0)


async def test_a_subscriber_that_is_alone_loses_nothing_however_long_it_does_not_read(
    addresses: Addresses, client: Client
) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    bridge = Bridge(addresses, Secrets(key=b"key"), context, patience_s=0.5)
    bridge.open()
    stream = NotedStream()
    bridge.join(stream)
    gone = Client(addresses, b"gone")
    await welcomed(gone)
    gone.close()
    end = await welcomed(client, receive_queue=10)
    count, body = 0, b"x" * 10_000
    while not stream.are_replies_let_past.is_set():
        if not stream.is_held:
            bridge.deliver(1, "iopub", [b"%d" % count, body])
            count += 1
        await asyncio.sleep(0)
    for number in range(count):
        assert (await asyncio.wait_for(end.recv_multipart(), 60))[0] == b"%d" % number
    while stream.is_held:
        stream.changed.clear()
        await asyncio.wait_for(stream.changed.wait(), 60)
    bridge.close()
    context.destroy(linger=0)


async def test_a_request_that_cannot_be_passed_on_does_not_keep_those_behind_it(
    bridge: Bridge, addresses: Addresses, client: Client
) -> None:
    stream, faults = PickyStream(), asyncio.Queue[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.put_nowait(context["exception"]))
    bridge.join(stream)
    end = client.connect(zmq.DEALER, "shell")
    for body in (b"unwanted", b"wanted"):
        await end.send(body)
    assert await asyncio.wait_for(stream.requests.get(), 60) == ("shell", [b"client", b"wanted"])
    assert isinstance(await asyncio.wait_for(faults.get(), 60), ValueError)


async def test_names_that_a_manager_has_removed_are_published_again() -> None:
    addresses = IpcAddresses()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    bridge = Bridge(addresses, Secrets(key=b"key"), context)
    bridge.open()
    for channel in CHANNELS:
        addresses.path(channel).unlink()
    bridge.publish()
    late = Client(addresses)
    await welcomed(late)
    late.close()
    bridge.close()
    context.destroy(linger=0)
    assert not addresses.path("shell").parent.exists()


async def test_a_port_that_is_taken_leaves_no_other_one_open() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with socket.create_server(("127.0.0.1", 0)) as server:
        addresses = TcpAddresses(ports={"control_port": server.getsockname()[1]})
        with pytest.raises(PortTaken, match="in use"):
            Bridge(addresses, Secrets(key=b"key"), context).open()
    context.term()  # waits for every socket


@pytest.mark.parametrize("ip", ["0.0.0.0", "192.0.2.1", "*", "example.org", ""])
def test_ports_are_never_opened_to_others(ip: str) -> None:
    with pytest.raises(BadInput, match="other users could reach them"):
        TcpAddresses(ip)


@pytest.mark.parametrize("connection", [{}, {"transport": "ipc"}, {"shell_port": "x"}], ids=str)
def test_a_connection_file_without_usable_ports_is_refused(connection: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        addresses_of(connection)
