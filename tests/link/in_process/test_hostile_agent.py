"""A client that meets a hostile, broken, older or newer agent: live, or lost with the reason, and never a crash."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_tpu.errors import AgentBroken
from jupyter_tpu.link import Link
from jupyter_tpu.wire.entries import encode_entry
from jupyter_tpu.wire.frames import FROM_AGENT, Kind, encode_frame, encode_json
from jupyter_tpu.wire.hello import agent_hello

HELLO = encode_json(Kind.HELLO, agent_hello({"version": "test"}))
READY = json.dumps({"ready": {"socket": "/s", "python": "p"}}).encode() + b"\n"

json_payloads = st.builds(
    lambda value: json.dumps(value).encode(),
    st.dictionaries(
        st.sampled_from(["seq", "end", "error", "result", "spare", "next_seq"]),
        st.none()
        | st.integers()
        | st.text(max_size=5)
        | st.just({})
        | st.just({"code": "kernel_failed", "message": 7}),
        max_size=4,
    ),
)
entries = st.builds(
    lambda seq, channel, parts: encode_entry(seq, 0.0, channel, parts),
    st.integers(0, 9) | st.integers(0, 2**64 - 1),
    st.integers(0, 255),
    st.lists(st.binary(max_size=9), max_size=3),
)
frames = st.builds(
    encode_frame,
    st.sampled_from(sorted(FROM_AGENT)),
    st.integers(0, 2),
    st.just(0) | st.integers(0, 9) | st.integers(0, 2**64 - 1),
    st.binary(max_size=30) | json_payloads | entries,
)


class Says:
    """A stream that says what it was told to, once, and then nothing."""

    def __init__(self, said: bytes) -> None:
        self._said = said
        self._is_closed = asyncio.Event()
        self.is_done = asyncio.Event()

    async def read(self, n: int) -> bytes:
        said, self._said = self._said, b""
        if not said:
            self.is_done.set()
            await self._is_closed.wait()
        return said

    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...
    def write_eof(self) -> None: ...

    def close(self) -> None:
        self._is_closed.set()
        self.is_done.set()

    async def wait_closed(self) -> None: ...
    async def exit_status(self) -> int:
        return 0

    async def read_stderr(self) -> str:
        return ""


class HostileAgent:
    """Greets, and then says what the test wants."""

    def __init__(self, said: bytes) -> None:
        self.stream = Says(HELLO + said)

    async def connect(self) -> HostileAgent:
        return self

    async def execute(self, command: str) -> Says:
        return Says(READY)

    async def open_unix(self, path: str) -> Says:
        return self.stream

    async def close(self) -> None: ...


async def meet(said: bytes) -> tuple[Link, list[tuple[int, str, list[bytes]]], list[int]]:
    """A link that has heard all of it, what its streams delivered, and the seqs that came early."""
    heard: list[tuple[int, str, list[bytes]]] = []
    early: list[int] = []
    agent = HostileAgent(said)
    link = Link(agent.connect)
    for from_seq in (0, "end"):
        link.attach(
            "kernel-1",
            from_seq=from_seq,  # type: ignore[arg-type]
            on_message=lambda seq, channel, parts: heard.append((seq, channel, parts)),
            on_express=lambda seq, channel, parts: early.append(seq),
        )
    call = asyncio.create_task(link.call("status"))
    with suppress(AgentBroken):
        await link.open()
    async with asyncio.timeout(60):
        await agent.stream.is_done.wait()
        for _ in range(20):
            await asyncio.sleep(0)
    state, error = link.state, link.error
    await link.close()
    await asyncio.gather(call, return_exceptions=True)
    assert state in ("live", "lost")
    assert "The connection to the worker failed" not in str(error)
    return link, heard, early


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(frames, max_size=8))
def test_no_frames_of_an_agent_crash_a_link(said: list[bytes]) -> None:
    _, heard, early = asyncio.run(meet(b"".join(said)))
    seqs = [seq for seq, channel, _ in heard if channel != "event"]
    for delivered in (seqs, early):
        assert len(delivered) <= 2 * len(set(delivered))  # once by each of two streams


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_of_an_agent_crash_a_link(said: bytes) -> None:
    asyncio.run(meet(said))


def position(**content: Any) -> bytes:
    return encode_json(Kind.POSITION, {"seq": 1, **content}, 1, 0)


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (encode_json(Kind.NOTICE, {"spare": 5}), "live"),
        (encode_json(Kind.NOTICE, {"weather": "fine"}), "live"),
        (encode_frame(Kind.NOTICE, payload=b"?"), "lost"),
        (position() + encode_frame(Kind.EXPRESS, 1, 5, b"no entry"), "live"),
        (encode_frame(Kind.EXPRESS, 1, 5, encode_entry(5, 0.0, 1, [b"early"])), "live"),
        (encode_frame(Kind.EXPRESS, 9, 5, b"for no stream"), "live"),
        (position() + encode_frame(Kind.DATA, 1, 0, b"\xff" * 60), "live"),
        (position(end="far"), "lost"),
        (position(seq=-3), "live"),
        (position(seq=2**64), "lost"),
        (encode_json(Kind.RESULT, {"result": {"next_seq": -1}}, number=1), "live"),
        (encode_json(Kind.RESULT, {"result": {"next_seq": 2**70}}, number=1), "live"),
        (encode_json(Kind.RESULT, {"result": {"next_seq": "x"}}, number=1), "live"),
        (encode_frame(Kind.PING), "lost"),
        (encode_frame(200), "lost"),  # type: ignore[arg-type]
    ],
)
async def test_what_an_agent_may_get_wrong(said: bytes, state: str) -> None:
    link, _, _ = await meet(said)
    assert (link.error is not None) == (state == "lost")


async def test_an_agent_that_sends_more_early_copies_than_are_kept_loses_none() -> None:
    count = 10_050
    copies = b"".join(
        encode_frame(Kind.EXPRESS, 1, seq, encode_entry(seq, 0.0, 1, [b""])) for seq in range(1, count + 1)
    )
    record = b"".join(encode_entry(seq, 0.0, 1, [b""]) for seq in range(1, count + 1))
    _, heard, early = await meet(position() + copies + encode_frame(Kind.DATA, 1, 0, record))
    assert early == list(range(1, 10_001))
    assert [seq for seq, _, _ in heard] == list(range(1, count + 1))


async def test_an_older_agent_that_tells_no_end_counts_as_caught_up() -> None:
    states: list[str] = []
    agents = [HostileAgent(b""), HostileAgent(position())]
    is_back = asyncio.Event()

    def on_state(state: str, error: object, since: float) -> None:
        states.append(state)
        if states[-2:] == ["resuming", "live"]:
            is_back.set()

    async def connect() -> HostileAgent:
        return agents[0] if "down" not in states else agents[1]

    link = Link(connect, on_state=on_state)
    await link.open()
    link.attach("kernel-1", on_message=lambda seq, channel, parts: None)
    agents[0].stream.close()
    async with asyncio.timeout(60):
        await is_back.wait()
    assert link.spare is None
    await link.close()
    assert states == ["connecting", "live", "down", "resuming", "live", "lost"]
