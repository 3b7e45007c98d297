"""Whatever answers on the worker, the link ends with a clear error: no crash, no endless loop, no memory given away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest
from virtual_loop import VirtualLoop

from jupyter_tpu.errors import AgentBroken, EnvironmentFailed, HostKeyChanged, NodeNotFound, TpuError, WorkerUnreachable
from jupyter_tpu.link import Link
from jupyter_tpu.wire.entries import encode_entry
from jupyter_tpu.wire.frames import Kind, encode_frame, encode_json
from jupyter_tpu.wire.hello import agent_hello

READY = b'{"ready": {"socket": "/run/agent.sock", "python": "python3"}}\n'
HELLO = encode_json(Kind.HELLO, agent_hello({"pid": 1}))
POSITION = encode_json(Kind.POSITION, {"seq": 1}, 1, 0)


class Scripted:
    """A stream that says what it was told to and then ends, or falls silent."""

    def __init__(self, *says: bytes, status: int = 0, stderr: str = "", then_silent: bool = False) -> None:
        self._pieces = list(says)
        self._status = status
        self._stderr = stderr
        self._then_silent = then_silent
        self._closed = asyncio.Event()
        self.heard = bytearray()

    async def read(self, n: int) -> bytes:
        data = self._pieces.pop(0) if self._pieces else b""
        if not data and self._then_silent:
            await self._closed.wait()
        return data

    def write(self, data: bytes) -> None:
        self.heard += data

    async def drain(self) -> None: ...

    def write_eof(self) -> None: ...

    def close(self) -> None:
        self._closed.set()

    async def wait_closed(self) -> None: ...

    async def exit_status(self) -> int:
        return self._status

    async def read_stderr(self) -> str:
        return self._stderr


class EvilWorker:
    """A worker whose bootstrap and agent say what the test wants."""

    def __init__(
        self, bootstrap: Scripted | bytes = READY, agent: bytes = HELLO, later: bytes = b"", *, then_silent: bool = True
    ) -> None:
        self._bootstrap = bootstrap
        self._agent = [piece for piece in (agent, later) if piece]
        self._then_silent = then_silent
        self.connects = 0
        self.commands: list[str] = []

    async def connect(self) -> EvilWorker:
        self.connects += 1
        return self

    async def execute(self, command: str) -> Scripted:
        self.commands.append(command)
        return self._bootstrap if isinstance(self._bootstrap, Scripted) else Scripted(self._bootstrap)

    async def open_unix(self, path: str) -> Scripted:
        return Scripted(*self._agent, then_silent=self._then_silent)

    async def close(self) -> None: ...


@pytest.mark.parametrize(
    "nonsense",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x00" * 17,
        b"\xff" * 1000,
        encode_frame(Kind.HELLO, payload=b"not json"),
        encode_frame(Kind.HELLO, payload=b"[1]"),
        encode_json(Kind.HELLO, {}),
        encode_json(Kind.HELLO, {"protocols": [999]}),
        encode_json(Kind.HELLO, {"protocols": "1"}),
        encode_frame(Kind.PONG),
    ],
)
async def test_what_does_not_greet_as_an_agent_is_broken(nonsense: bytes) -> None:
    worker = EvilWorker(agent=nonsense)
    link = Link(worker.connect)
    with pytest.raises(AgentBroken) as caught:
        await link.open()
    assert caught.value.hint
    assert caught.value.raw
    assert (link.state, worker.connects) == ("lost", 1)
    await link.close()


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\xff" * 1000,
        encode_frame(Kind.CALL),
        encode_frame(Kind.DATA, 1, 0, b"x" * 60),
        POSITION + encode_frame(Kind.DATA, 1, 17, b"x"),
        encode_json(Kind.POSITION, {"seq": "one"}, 1, 0),
        encode_frame(Kind.POSITION, 1, 0, b"?"),
        encode_json(Kind.RESULT, {"neither": 1}, number=1),
        encode_frame(Kind.DATA, 1, 0, b"x" * 2_000_000),
        encode_json(Kind.POSITION, {"seq": 2**64}, 1, 0),
        encode_frame(77),  # of an agent that is newer and does not ask what we accept
    ],
)
async def test_an_agent_that_goes_mad_later_loses_the_link(nonsense: bytes) -> None:
    worker = EvilWorker(later=nonsense)
    link = Link(worker.connect)
    link.attach("kernel-1", on_message=lambda seq, channel, parts: None)
    waiting = asyncio.create_task(link.call("status"))
    await asyncio.sleep(0)
    await link.open()
    with pytest.raises(AgentBroken):
        await asyncio.wait_for(waiting, 60)
    assert (link.state, worker.connects) == ("lost", 1)
    assert isinstance(link.error, AgentBroken)
    await link.close()


async def test_frames_for_nobody_are_ignored() -> None:
    strangers = [
        encode_frame(Kind.DATA, 77, 0, b"x"),
        encode_json(Kind.RESULT, {"result": {}}, number=500),
        encode_frame(Kind.REQACK, 3, 99),
        encode_frame(Kind.PONG, number=3),
    ]
    answer = encode_json(Kind.RESULT, {"result": {"fine": True}}, number=1)
    link = Link(EvilWorker(agent=b"".join([HELLO, *strangers, answer])).connect)
    call = asyncio.create_task(link.call("status"))
    await asyncio.sleep(0)
    await link.open()
    assert await asyncio.wait_for(call, 60) == {"fine": True}
    await link.close()


async def test_a_receiver_that_fails_does_not_harm_the_link() -> None:
    record = encode_entry(1, 0.0, 3, [b"one"]) + encode_entry(2, 0.0, 3, [b"two"])
    seen: list[int] = []
    both = asyncio.Event()

    def on_message(seq: int, channel: str, parts: list[bytes]) -> None:
        seen.append(seq)
        if len(seen) == 2:
            both.set()
        raise RuntimeError("a fault of the receiver")

    link = Link(EvilWorker(agent=HELLO + POSITION + encode_frame(Kind.DATA, 1, 0, record)).connect)
    link.attach("kernel-1", on_message=on_message)
    await link.open()
    await asyncio.wait_for(both.wait(), 60)
    assert (seen, link.state) == ([1, 2], "live")
    await link.close()


async def test_an_agent_that_dies_at_each_start_is_given_up_with_its_log() -> None:
    ready = json.dumps({"ready": {"socket": "/s", "python": "p", "log": "ImportError: zmq"}}).encode() + b"\n"
    worker = EvilWorker(bootstrap=ready, agent=b"", then_silent=False)
    link = Link(worker.connect)
    with pytest.raises(AgentBroken, match="did not start") as caught:
        await link.open()
    assert caught.value.raw == "ImportError: zmq"
    assert len(worker.commands) == 5
    await link.close()


@pytest.mark.parametrize(
    ("bootstrap", "error", "words"),
    [
        (Scripted(b"", status=127, stderr="sh: python3: not found"), EnvironmentFailed, "no python3"),
        (Scripted(b"", status=1, stderr="No space left on device"), EnvironmentFailed, "status 1"),
        (Scripted(b"", status=-1), WorkerUnreachable, "was lost"),
        (b'{"ready": 1}\n', AgentBroken, "invalid response"),
        (b'{"ready": {}}\n', AgentBroken, "invalid response"),
        (b'{"failed": "yes"}\n', AgentBroken, "invalid response"),
        (b'{"failed": {"code": "environment_failed", "message": "No disk."}}\n', EnvironmentFailed, "No disk"),
        (b"x" * 3_000_000, AgentBroken, "invalid response"),
    ],
)
async def test_a_bootstrap_that_fails_is_explained(
    bootstrap: Scripted | bytes, error: type[TpuError], words: str
) -> None:
    link = Link(EvilWorker(bootstrap=bootstrap).connect)
    with pytest.raises(error, match=words):
        await link.open()
    await link.close()


class BreakingWorker(EvilWorker):
    """A worker whose first connection breaks while the worker is being prepared."""

    def __init__(self, then: TpuError | None = None) -> None:
        super().__init__(bootstrap=Scripted(b"", status=-1))
        self._then = then

    async def connect(self) -> EvilWorker:
        await super().connect()
        if self.connects == 2:
            if self._then:
                raise self._then
            self._bootstrap = READY
        return self


async def test_a_first_connection_that_breaks_is_made_once_more() -> None:
    worker = BreakingWorker()
    link = Link(worker.connect)
    await link.open()
    assert (link.state, worker.connects) == ("live", 2)
    await link.close()


async def test_a_node_that_was_deleted_while_a_kernel_started_is_given_as_the_reason() -> None:
    link = Link(BreakingWorker(NodeNotFound("You deleted my-node.")).connect)
    with pytest.raises(NodeNotFound, match="You deleted my-node"):
        await link.open()
    assert isinstance(link.error, NodeNotFound)
    await link.close()


async def test_a_login_banner_and_strange_lines_are_passed_over() -> None:
    banner = b"Welcome to Ubuntu\n\n[1, 2]\n{broken\n" + b"\xff\xfe\n" + b'{"unknown": 1}\n'
    link = Link(EvilWorker(bootstrap=banner + READY).connect)
    await link.open()
    assert link.state == "live"
    await link.close()


async def test_progress_is_passed_on() -> None:
    progress: list[Any] = []
    line = b'{"phase": "agent", "message": "Installing", "fraction": 0.5}\n'
    link = Link(EvilWorker(bootstrap=line + READY).connect, on_progress=progress.append)
    await link.open()
    assert progress == [{"phase": "agent", "message": "Installing", "fraction": 0.5}]
    await link.close()


async def test_the_remote_command_is_always_the_same() -> None:
    worker = EvilWorker()
    link = Link(worker.connect, python="python3; touch /tmp/canary")
    await link.open()
    assert all("canary" not in command for command in worker.commands)
    await link.close()


class Clogged(Scripted):
    """With unsent bytes a channel's end does not come, however often it is closed."""

    def close(self) -> None: ...


class CloggedWorker(EvilWorker):
    async def open_unix(self, path: str) -> Scripted:
        return Clogged(HELLO, then_silent=True)


@pytest.mark.parametrize("worker", [EvilWorker(), CloggedWorker()], ids=["silent", "silent and clogged"])
def test_a_path_that_falls_silent_is_taken_as_dead(worker: EvilWorker) -> None:
    states: list[str] = []

    async def until_it_is_back() -> None:
        back = asyncio.Event()

        def on_state(state: str, error: TpuError | None, since: float) -> None:
            states.append(state)
            if states.count("live") == 2:
                back.set()

        link = Link(worker.connect, on_state=on_state)
        await link.open()
        await back.wait()
        await link.close()

    in_virtual_time(until_it_is_back())
    assert states[:5] == ["connecting", "live", "down", "resuming", "live"]


def in_virtual_time(steps: Coroutine[Any, Any, None]) -> None:
    """Run what waits for a time limit, without any that a slow machine could exceed before."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(steps)


async def refused(link: Link) -> None:
    try:
        await link.open()
    finally:
        await link.close()


def test_an_agent_that_does_not_answer_is_named() -> None:
    with pytest.raises(WorkerUnreachable, match="did not respond"):
        in_virtual_time(refused(Link(EvilWorker(agent=b"").connect)))


async def test_a_changed_host_key_ends_the_link_at_once() -> None:
    worker = EvilWorker(then_silent=False)
    lost = asyncio.Event()

    async def connect() -> EvilWorker:
        if worker.connects:
            raise HostKeyChanged("Another machine answers.")
        return await worker.connect()

    link = Link(connect, on_state=lambda state, error, since: lost.set() if state == "lost" else None)
    await link.open()
    await asyncio.wait_for(lost.wait(), 60)
    assert isinstance(link.error, HostKeyChanged)
    await link.close()


def test_a_worker_that_falls_silent_while_it_is_prepared_is_given_up() -> None:
    says = Scripted(b'{"phase": "kernel", "message": "Installing ipykernel", "fraction": 0.5}\n', then_silent=True)
    with pytest.raises(EnvironmentFailed, match="Installing ipykernel") as caught:
        in_virtual_time(refused(Link(EvilWorker(bootstrap=says).connect)))
    assert "jupyter tpu ssh" in caught.value.hint


class Lingering(Scripted):
    """Its output has ended, and it has not."""

    async def exit_status(self) -> int:
        await self._closed.wait()
        return 0


def test_a_bootstrap_that_does_not_end_after_its_last_words_is_given_up() -> None:
    with pytest.raises(EnvironmentFailed, match="did not exit") as caught:
        in_virtual_time(refused(Link(EvilWorker(bootstrap=Lingering()).connect)))
    assert "jupyter tpu ssh" in caught.value.hint


class StubbornWorker(EvilWorker):
    """The reconnecting code swallows one cancellation, as libraries do."""

    def __init__(self) -> None:
        super().__init__(then_silent=False)
        self.came_back = asyncio.Event()

    async def connect(self) -> EvilWorker:
        if self.connects:
            self.came_back.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await asyncio.Event().wait()
        return await super().connect()


async def test_a_link_closes_even_if_a_cancellation_is_swallowed() -> None:
    worker = StubbornWorker()
    link = Link(worker.connect)
    await link.open()
    async with asyncio.timeout(60):
        await worker.came_back.wait()
        await link.close()
    assert link.state == "lost"
