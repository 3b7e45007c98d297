"""The fault proxy forwards bytes unchanged until it is asked for a fault, and then does just that to them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.emulator.cli import proxy as proxy_command
from jupyter_tpu.emulator.network_faults.fault_proxy import FaultProxy
from jupyter_tpu.emulator.network_faults.fault_script import play, random_script, script_from_json
from jupyter_tpu.emulator.network_faults.proxied_connection import Address
from jupyter_tpu.emulator.network_faults.verbs import link_fault_from_json

MIB = 1024 * 1024
SENT = bytes(range(256)) * 8


@dataclass
class End:
    """One end of a proxied connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def receive(self, size: int) -> bytes:
        return await asyncio.wait_for(self.reader.readexactly(size), 120)

    async def receive_all(self) -> bytes:
        """Everything up to the orderly end; ConnectionError when there is none."""
        return await asyncio.wait_for(self.reader.read(), 120)

    async def receive_until_reset(self) -> bytes:
        received = b""
        with suppress(ConnectionError):
            while data := await asyncio.wait_for(self.reader.read(MIB), 120):
                received += data
            pytest.fail("the connection came to an orderly end")
        return received


@dataclass
class Route:
    """A server and a fault proxy before it."""

    proxy: FaultProxy
    server: asyncio.Server
    accepted: asyncio.Queue[End]
    opened: list[End] = field(default_factory=list)

    def fault(self, verb: str, **fields: Any) -> None:
        self.proxy.apply(link_fault_from_json({"verb": verb, **fields}))

    async def call(self) -> End:
        """A client's end, whether or not the server hears of it."""
        self.opened.append(await connected(self.proxy.address))
        return self.opened[-1]

    async def answer(self) -> End:
        """The server's end of the next connection that reaches it."""
        self.opened.append(await asyncio.wait_for(self.accepted.get(), 120))
        return self.opened[-1]

    async def connect(self) -> tuple[End, End]:
        client = await self.call()
        return client, await self.answer()

    async def close(self) -> None:
        for end in self.opened:
            end.writer.transport.abort()
            with suppress(ConnectionError):
                await end.writer.wait_closed()
        await self.proxy.close()
        self.server.close()
        await self.server.wait_closed()


async def connected(address: Address) -> End:
    if isinstance(address, Path):
        return End(*await asyncio.open_unix_connection(str(address), limit=MIB))
    return End(*await asyncio.open_connection(*address, limit=MIB))


async def a_server(address: Address) -> tuple[asyncio.Server, Address, asyncio.Queue[End]]:
    accepted: asyncio.Queue[End] = asyncio.Queue()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.put_nowait(End(reader, writer))

    if isinstance(address, Path):
        return await asyncio.start_unix_server(accept, str(address), limit=MIB), address, accepted
    server = await asyncio.start_server(accept, *address, limit=MIB)
    return server, server.sockets[0].getsockname()[:2], accepted


@pytest.fixture(params=["tcp", "unix"])
async def route(request: pytest.FixtureRequest) -> AsyncIterator[Route]:
    with tempfile.TemporaryDirectory(prefix="jt-") as folder:
        # Other tests' clients may still call a port of 127.0.0.1 that is free again.
        host = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"
        places: tuple[Address, Address] = ((host, 0), (host, 0))
        if request.param == "unix":
            places = Path(folder) / "server", Path(folder) / "proxy"
        server, address, accepted = await a_server(places[0])
        proxy = FaultProxy(address)
        proxy.listen(places[1])
        route = Route(proxy, server, accepted)
        yield route
        await route.close()
        assert proxy.connections == 0


only_tcp = pytest.mark.parametrize("route", ["tcp"], indirect=True)


async def test_many_megabytes_pass_both_ways_at_once_unchanged(route: Route) -> None:
    client, server = await route.connect()
    up, down = os.urandom(24 * MIB), os.urandom(24 * MIB)

    received = await asyncio.gather(
        server.receive(len(up)), client.receive(len(down)), client.send(up), server.send(down)
    )

    assert received[:2] == [up, down]


async def test_an_orderly_end_is_passed_on_and_the_other_way_goes_on(route: Route) -> None:
    client, server = await route.connect()
    await client.send(SENT)
    client.writer.write_eof()
    assert await server.receive_all() == SENT

    await server.send(SENT)
    server.writer.write_eof()
    assert await client.receive_all() == SENT


async def test_a_client_that_breaks_off_breaks_the_servers_end(route: Route) -> None:
    client, server = await route.connect()
    await server.send(SENT)
    await client.receive(1)
    client.writer.transport.abort()

    with suppress(ConnectionError):
        await server.receive_all()
        while True:  # an orderly end of a Unix socket says nothing yet of the other way
            await server.send(SENT)
            await asyncio.sleep(0)


async def test_a_sender_is_held_back_while_the_receiver_does_not_read(route: Route) -> None:
    client, server = await route.connect()
    server.reader._transport.pause_reading()  # type: ignore[attr-defined]
    sending = asyncio.ensure_future(client.send(bytes(256 * MIB)))

    done, _ = await asyncio.wait({sending}, timeout=1.0)

    assert not done
    sending.cancel()


@only_tcp
async def test_a_server_that_is_not_there_resets_the_client(route: Route) -> None:
    route.server.close()
    await route.server.wait_closed()
    client = await route.call()

    assert await client.receive_until_reset() == b""


async def test_no_packet_waits_for_the_acknowledgement_of_the_one_before() -> None:
    """Nagle's delay at the client's side of the proxy would hold back 40 ms whatever is sent in two pieces."""
    accepted: list[socket.socket] = []

    def admit(connection: socket.socket) -> bool:
        accepted.append(connection.dup())
        return True

    server, address, arrived = await a_server(("127.0.0.1", 0))
    proxy = FaultProxy(address, admit=admit)
    proxy.listen(("127.0.0.1", 0))
    route = Route(proxy, server, arrived)
    client, there = await route.connect()
    await there.send(SENT)
    await client.receive(len(SENT))
    with accepted[0]:
        assert accepted[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    await route.close()


@only_tcp
async def test_round_trips_are_counted_and_what_is_sent_meanwhile_adds_none(route: Route) -> None:
    route.fault("latency", ms=20)
    client, server = await route.connect()
    for _ in range(3):
        await client.send(SENT)
        await client.send(SENT)
        await server.receive(2 * len(SENT))
        await server.send(SENT)
        await server.send(SENT)
        await client.receive(2 * len(SENT))

    assert (route.proxy.round_trips, route.proxy.accepted) == (4, 1), "the handshake, and three of ours"
    route.fault("reset")
    await server.receive_until_reset()
    assert route.proxy.round_trips == 4


async def test_latency_delays_and_costs_no_throughput(route: Route) -> None:
    client, server = await route.connect()
    latency_s = 1.0
    route.fault("latency", ms=1000 * latency_s)
    loop = asyncio.get_running_loop()
    began = loop.time()
    sending = asyncio.ensure_future(client.send(bytes(32 * MIB)))
    await server.receive(1)
    assert loop.time() - began >= latency_s

    await server.receive(32 * MIB - 1)
    await sending
    chunks = 32 * MIB / (256 * 1024)
    assert loop.time() - began < latency_s * chunks / 2, "chunks waited for each other"


async def test_a_new_connection_takes_the_round_trips_of_a_handshake(route: Route) -> None:
    route.fault("latency", ms=100)
    loop = asyncio.get_running_loop()
    began = loop.time()
    client = await route.call()
    await client.send(SENT)
    server = await route.answer()
    await server.receive(len(SENT))
    await server.send(SENT)
    await client.receive(len(SENT))

    assert loop.time() - began >= 0.4, "one round trip for the handshake, one for the data"


async def test_jitter_keeps_the_order(route: Route) -> None:
    client, server = await route.connect()
    route.fault("latency", ms=5, jitter_ms=5)
    numbers = [number.to_bytes(4, "big") for number in range(200)]
    for number in numbers:
        await client.send(number)
        await asyncio.sleep(0)

    assert await server.receive(800) == b"".join(numbers)


async def test_a_rate_is_kept(route: Route) -> None:
    client, server = await route.connect()
    route.fault("rate", kib_per_s=256, direction="up")
    loop = asyncio.get_running_loop()
    began = loop.time()
    data = os.urandom(256 * 1024)
    await client.send(data)

    assert await server.receive(len(data)) == data
    assert loop.time() - began >= 0.95


async def test_slices_are_put_together_again_unchanged(route: Route) -> None:
    client, server = await route.connect()
    route.fault("slice", bytes=7)
    await client.send(SENT)

    assert await server.receive(len(SENT)) == SENT


@pytest.mark.parametrize("verb", ["stall", "black_hole"])
async def test_nothing_gets_through_a_blocked_link(route: Route, verb: str) -> None:
    client, server = await route.connect()
    route.fault(verb)
    await asyncio.gather(client.send(SENT), server.send(SENT))

    assert await asyncio.gather(_anything(client), _anything(server)) == [b"", b""]


async def _anything(end: End) -> bytes:
    """What arrives within a moment."""
    try:
        return await asyncio.wait_for(end.reader.read(1), 0.3)
    except TimeoutError:
        return b""


async def test_a_stall_that_ends_has_lost_nothing(route: Route) -> None:
    client, server = await route.connect()
    route.fault("stall", for_s=0.2)
    await client.send(SENT)
    client.writer.write_eof()

    assert await server.receive_all() == SENT


async def test_a_black_hole_of_one_way_lets_the_other_way_through(route: Route) -> None:
    client, server = await route.connect()
    route.fault("black_hole", direction="up")
    await client.send(SENT)
    await server.send(SENT)

    assert await client.receive(len(SENT)) == SENT
    assert await _anything(server) == b""


async def test_a_connection_that_lost_bytes_stays_silent_and_a_new_one_works(route: Route) -> None:
    client, server = await route.connect()
    route.fault("black_hole")
    await client.send(SENT)
    assert await _anything(server) == b""
    route.fault("clear")
    await server.send(SENT)
    assert await _anything(client) == b""

    client, server = await route.connect()
    await client.send(SENT)
    assert await server.receive(len(SENT)) == SENT


@only_tcp
async def test_whoever_outlived_the_other_end_in_a_black_hole_is_reset_when_the_path_is_back(route: Route) -> None:
    client, server = await route.connect()
    route.fault("black_hole")
    client.writer.close()
    await client.writer.wait_closed()
    assert await _anything(server) == b""
    route.fault("clear")

    assert await server.receive_until_reset() == b""


@pytest.mark.parametrize("verb", ["stall", "black_hole"])
async def test_a_connection_that_is_made_while_the_link_is_blocked_is_whole_once_it_is_not(
    route: Route, verb: str
) -> None:
    route.fault(verb)
    client = await route.call()
    await client.send(SENT)
    route.fault("clear")
    server = await route.answer()

    assert await server.receive(len(SENT)) == SENT


@only_tcp
async def test_a_reset_reaches_both_ends(route: Route) -> None:
    client, server = await route.connect()
    route.fault("reset")

    assert await asyncio.gather(client.receive_until_reset(), server.receive_until_reset()) == [b"", b""]


async def test_finish_ends_both_ways_in_good_order_behind_what_was_sent(route: Route) -> None:
    client, server = await route.connect()
    await client.send(SENT)
    assert await server.receive(1) == SENT[:1]
    route.fault("finish")

    assert await client.receive_all() == b""
    assert await server.receive_all() == SENT[1:]


async def test_a_half_close_leaves_the_other_way_open(route: Route) -> None:
    client, server = await route.connect()
    route.fault("half_close", direction="up")
    assert await server.receive_all() == b""
    await server.send(SENT)

    assert await client.receive(len(SENT)) == SENT


@only_tcp
@pytest.mark.parametrize("after", [0, 1, 1000, 2048])
async def test_a_cut_lets_just_so_many_bytes_through(route: Route, after: int) -> None:
    client, server = await route.connect()
    route.fault("cut", after=after, direction="up")
    await client.send(SENT)

    assert await server.receive_until_reset() == SENT[:after]
    assert await client.receive_until_reset() == b""


@only_tcp
async def test_a_cut_hits_one_connection_and_the_next_one_lives(route: Route) -> None:
    first, second = await route.connect(), await route.connect()
    route.fault("cut", after=10)
    await first[0].send(SENT)
    await first[1].receive_until_reset()
    await second[0].send(SENT)

    assert await second[1].receive(len(SENT)) == SENT
    assert route.proxy.faults() == []


async def test_a_corrupt_byte_has_one_bit_flipped(route: Route) -> None:
    client, server = await route.connect()
    route.fault("corrupt", at=1000, direction="up")
    await client.send(SENT[:900])
    await client.send(SENT[900:])

    received = await server.receive(len(SENT))
    assert [at for at, byte in enumerate(received) if byte != SENT[at]] == [1000]
    assert received[1000] == SENT[1000] ^ 1


async def test_refusing_spares_open_connections_and_ends_with_clear(route: Route) -> None:
    client, server = await route.connect()
    route.fault("refuse")
    with pytest.raises(ConnectionRefusedError):
        await connected(route.proxy.address)
    await client.send(SENT)
    assert await server.receive(len(SENT)) == SENT

    route.fault("clear")
    await route.connect()


async def test_faults_of_different_verbs_add_up_and_clear_ends_them_all(route: Route) -> None:
    route.fault("latency", ms=10)
    route.fault("rate", kib_per_s=64, direction="down")
    route.fault("cut", after=5, times=3)
    assert [fault.to_json() for fault in route.proxy.faults()] == [
        {"verb": "latency", "direction": "both", "ms": 10, "jitter_ms": 0, "for_s": 0},
        {"verb": "rate", "direction": "down", "kib_per_s": 64, "for_s": 0},
        {"verb": "cut", "direction": "both", "after": 5, "times": 3},
    ]
    route.fault("clear")
    assert route.proxy.faults() == []

    client, server = await route.connect()
    await client.send(SENT)
    assert await server.receive(len(SENT)) == SENT


@only_tcp
async def test_a_script_plays_its_faults_in_the_order_of_time(route: Route) -> None:
    client, server = await route.connect()
    script = {"faults": [{"at_s": 0.1, "verb": "reset"}, {"at_s": 0, "verb": "corrupt", "at": 0}]}
    assert [(wait_s, fault.verb) for wait_s, fault in script_from_json(script)] == [(0, "corrupt"), (0.1, "reset")]
    await play(route.proxy, script_from_json(script))

    assert await asyncio.gather(client.receive_until_reset(), server.receive_until_reset()) == [b"", b""]


async def test_a_seed_always_makes_up_the_same_script() -> None:
    assert list(islice(random_script(7, 1.0), 50)) == list(islice(random_script(7, 1.0), 50))
    assert list(islice(random_script(7, 1.0), 50)) != list(islice(random_script(8, 1.0), 50))


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"verb": "explode"}, "unknown verb"),
        ({"verb": "latency"}, "latency needs ms"),
        ({"verb": "latency", "ms": -1}, "at least 0"),
        ({"verb": "rate", "kib_per_s": 0}, "not a positive number"),
        ({"verb": "cut", "after": "x"}, "whole number"),
        ({"verb": "reset", "ms": 5}, "takes no ms"),
        ({"verb": "stall", "direction": "sideways"}, "unknown direction"),
        ({"verb": 5}, "not a string"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(asked: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        link_fault_from_json(asked)


Start = Callable[..., Any]


@pytest.fixture
async def start_command() -> AsyncIterator[Start]:
    """Starts `jupyter tpu emulator proxy` with these options."""
    started: list[asyncio.subprocess.Process] = []

    async def start(*options: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        command = [sys.executable, "-m", "jupyter_tpu.cli", "emulator", "proxy", "--json", *options]
        started.append(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe))
        return started[-1]

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_the_command_takes_faults_on_its_standard_input(start_command: Start) -> None:
    server, address, accepted = await a_server(("127.0.0.1", 0))
    command = await start_command("--listen", "127.0.0.1:0", "--to", f"127.0.0.1:{address[1]}")  # type: ignore[index]
    host, _, port = json.loads(await command.stdout.readline())["listen"].rpartition(":")
    client = await connected((host, int(port)))
    far = await accepted.get()
    await client.send(SENT)
    assert await far.receive(len(SENT)) == SENT

    command.stdin.write(b'no json\n{"verb": "reset"}\n')
    assert await client.receive_until_reset() == b""
    assert await far.receive_until_reset() == b""

    command.send_signal(signal.SIGTERM)
    assert await command.wait() == 0
    assert b"not a valid fault: no json" in await command.stderr.read()
    server.close()


async def test_the_command_says_which_address_is_taken(start_command: Start) -> None:
    server, address, _ = await a_server(("127.0.0.1", 0))
    taken = f"127.0.0.1:{address[1]}"  # type: ignore[index]
    command = await start_command("--listen", taken, "--to", "127.0.0.1:1")

    assert await command.wait() == 1
    assert taken in (await command.stderr.read()).decode()
    server.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
async def test_the_command_ends_in_order(start_command: Start, tmp_path: Path, number: signal.Signals) -> None:
    command = await start_command("--listen", f"unix:{tmp_path}/s", "--to", "127.0.0.1:1")
    assert await command.stdout.readline()

    command.send_signal(number)

    assert await command.wait() == 0


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.com:0", "127.0.0.1.example.com:0"])
def test_the_command_listens_on_loopback_only(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        proxy_command.main(["--listen", address, "--to", "127.0.0.1:1"])

    assert stopped.value.code == 2
    assert f"{address!r} is not on loopback" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["127.0.0.1:80", "127.8.9.1:80", "localhost:80", "[::1]:80", ":80"])
def test_the_command_may_listen_anywhere_on_loopback(address: str) -> None:
    asked = proxy_command.parser().parse_args(["--listen", address, "--to", "198.51.100.1:22"])

    assert asked.listen[1] == 80
