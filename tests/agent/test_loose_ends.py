"""No order of requests, deaths of agents and answers of a kernel runs a cell twice or leaves one without its reply."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter, deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from virtual_loop import VirtualLoop

from jupyter_tpu.agent.kernels.lost_replies import LostReplies
from jupyter_tpu.agent.kernels.output_capture import OutputCapture
from jupyter_tpu.agent.kernels.replies import Replies
from jupyter_tpu.agent.kernels.takeover import Takeover
from jupyter_tpu.agent.recording.checkpoint import Checkpoint
from jupyter_tpu.agent.recording.jupyter_messages import DELIMITER, Signer, header_place, json_object
from jupyter_tpu.agent.recording.output_protocol import ATTACH, MOST_BYTES, ResendBuffer, parse_head
from jupyter_tpu.agent.recording.record import Record
from jupyter_tpu.agent.recording.recorder import Recorder
from jupyter_tpu.agent.recording.watermark import Watermark
from jupyter_tpu.wire.multipart import Channel


def message(kind: str, parent: bytes, content: dict[str, Any], msg_id: str = "") -> list[bytes]:
    header = {"msg_type": kind, "msg_id": msg_id, "session": "kernel"}
    return [DELIMITER, b"", json.dumps(header).encode(), parent, b"{}", json.dumps(content).encode()]


class NotedKernel:
    """A kernel without a key: it runs what it gets, and takes turns between its connections as ZMQ does.

    One that has our line keeps what it says for the next agent, and drops what it gets twice; the latter may be
    turned off. Its reply comes after its "idle" or before it, or never, for a cell that is interrupted at its end.
    """

    def __init__(self, *, has_line: bool, drops_repeats: bool = False) -> None:
        self.has_line = has_line
        self._drops_repeats = drops_repeats
        self.ran: list[str] = []
        self.swallowed: set[str] = set()
        self.pipes: list[deque[list[bytes]]] = []
        self.agent: NotedAgent | None = None
        self._turn = 0
        self._running: list[bytes] | None = None
        self._idle_for: list[bytes] | None = None
        self._unsaid: list[tuple[Channel, list[bytes]]] = []
        self._voice = OutputCapture("")

    def step(self) -> bool:
        """Begin the next request, or end the one that runs; whether there was one."""
        if self._idle_for is not None:
            asked, self._idle_for = self._idle_for, None
            self._reply(asked)
            return True
        if self._running is not None:
            asked, self._running = self._running, None
            self._end(asked)
            self._reply(asked)
            self._say_idle(asked)
            return True
        asked_now = self._next()
        if asked_now is None:
            return False
        self._say(Channel.IOPUB, [b"status", *message("status", _header(asked_now), {"execution_state": "busy"})])
        self._running = asked_now
        return True

    def become_idle(self) -> None:
        """End the request that runs, and reply in the next step."""
        if self._running is not None:
            self._idle_for, self._running = self._running, None
            self._end(self._idle_for)
            self._say_idle(self._idle_for)

    def interrupt(self) -> None:
        """End the cell that runs, by an interrupt that comes just before its reply."""
        if self._running is not None and json_object(_header(self._running))["msg_type"] == "execute_request":
            asked, self._running = self._running, None
            self._end(asked)
            self.swallowed.add(self.ran[-1])
            self._say_idle(asked)

    def listen(self, agent: NotedAgent) -> None:
        """A new agent has come."""
        self.agent = agent
        self.pipes.append(deque())
        if self.has_line:
            agent.intake.record_numbered([[ATTACH]])
            unsaid, self._unsaid = self._unsaid, []
            for channel, parts in unsaid:
                self._say(channel, parts)

    def _next(self) -> list[bytes] | None:
        for _ in self.pipes:
            self._turn = (self._turn + 1) % len(self.pipes)
            while self.pipes[self._turn]:
                parts = self.pipes[self._turn].popleft()
                if not (self._drops_repeats and self._voice.is_repeated(parts)):
                    return parts
        return None

    def _end(self, asked: list[bytes]) -> None:
        header = json_object(_header(asked))
        if header["msg_type"] == "execute_request":
            self.ran.append(header["msg_id"])

    def _reply(self, asked: list[bytes]) -> None:
        kind = str(json_object(_header(asked))["msg_type"]).replace("request", "reply")
        prefix = asked[: asked.index(DELIMITER)]
        self._say(Channel.SHELL, [*prefix, *message(kind, _header(asked), {"status": "ok"})])

    def _say_idle(self, asked: list[bytes]) -> None:
        self._say(Channel.IOPUB, [b"status", *message("status", _header(asked), {"execution_state": "idle"})])

    def _say(self, channel: Channel, parts: list[bytes]) -> None:
        if self.agent is not None:
            self.agent.intake.record(channel, [parts])
        elif self.has_line:
            self._unsaid.append((channel, parts))


class NotedAgent:
    """What an agent does with requests, over one life; a part of what it sends never leaves it."""

    def __init__(self, folder: Path, kernel: NotedKernel) -> None:
        self.record = Record(folder / "record")
        heard, checkpoint = Watermark(folder / "heard"), Checkpoint(folder / "checkpoint")
        self.intake = Recorder(self.record, heard, checkpoint, self._search, lambda _number: None)
        self.intake.recover()
        self.unsent: deque[list[bytes]] = deque()
        self._loose_ends: Any = None
        self._kernel = kernel
        kernel.listen(self)
        replies = Replies(self.intake, Signer("", "hmac-sha256"))
        self._lost_replies = LostReplies(self.record, self.intake, lambda: replies, self._send)
        self._loose_ends = Takeover(self.record, self.intake, replies, self._send, self._search)
        self.intake.on_probe_answer = self._probe_answered
        self._search()

    def _send(self, _channel: Channel, parts: list[bytes]) -> None:
        self.unsent.append(parts)

    def _search(self) -> None:
        if self._loose_ends is not None and self._loose_ends.is_done:
            self._lost_replies.search()

    def _probe_answered(self, channel: int, parts: list[bytes]) -> None:
        self._lost_replies.probe_answered(channel, parts)
        self._loose_ends.probe_answered(channel, parts)

    def request(self, msg_id: str) -> None:
        asked = [b"page", *message("execute_request", b"{}", {"code": ""}, msg_id)]
        self.intake.record(Channel.REQUEST, [asked])
        if not self._loose_ends.hold(Channel.SHELL, asked):
            self.unsent.append(asked)

    def send(self) -> bool:
        """Let one message leave; whether there was one."""
        if self.unsent:
            self._kernel.pipes[-1].append(self.unsent.popleft())
            return True
        return False

    def die(self) -> None:
        self._kernel.agent = None
        self._loose_ends.close()
        self._lost_replies.close()
        self.intake.close()
        self.record.close()


def _header(parts: list[bytes]) -> bytes:
    return parts[header_place(parts)]


def reply_of(parts: list[bytes]) -> tuple[str, str]:
    place = header_place(parts)
    return str(json_object(parts[place + 1])["msg_id"]), str(json_object(parts[place + 3])["status"])


async def play(folder: Path, kernel: NotedKernel, steps: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """What was asked, and the replies: to which request, and with which status."""
    agent, asked = NotedAgent(folder, kernel), list[str]()
    for step in steps:
        if step == "request":
            asked.append(f"cell-{len(asked)}")
            agent.request(asked[-1])
        elif step == "send":
            agent.send()
        elif step == "kernel":
            kernel.step()
        elif step == "idle":
            kernel.become_idle()
        elif step == "interrupt":
            kernel.interrupt()
        elif step == "wait":
            await asyncio.sleep(2)
        elif step == "unwatched":
            agent.die()
            kernel.step()
            agent = NotedAgent(folder, kernel)
        else:
            agent.die()
            agent = NotedAgent(folder, kernel)
        await asyncio.sleep(0)
    quiet = 0
    while quiet < 5:  # the agent reads its record meanwhile, and waits for replies
        quiet = 0 if agent.send() or kernel.step() else quiet + 1
        await asyncio.sleep(1)
    replies = [reply_of(entry.parts) for entry, _ in agent.record.entries(1) if entry.channel == Channel.SHELL]
    agent.die()
    return asked, replies


OFTEN = ["request", "send", "kernel"]
STEPS = st.lists(st.sampled_from([*OFTEN, *OFTEN, "idle", "interrupt", "wait", "death", "unwatched"]))

ONE_CELL = ["request", "send", "kernel"]
LATE_REPLY = [*ONE_CELL, "idle", "wait", "kernel"]
DEATH_BEFORE_THE_REPLY = [*ONE_CELL, "idle", "death", "send", "wait", "kernel"]
NO_REPLY_AND_A_DEATH = [*ONE_CELL, "interrupt", "death", *ONE_CELL, "wait"]


def played(kernel: NotedKernel, steps: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(play(Path(folder), kernel, steps))


@pytest.mark.parametrize("drops_repeats", [False, True])
@settings(max_examples=100, deadline=None)
@given(steps=STEPS)
@example(steps=LATE_REPLY)
@example(steps=DEATH_BEFORE_THE_REPLY)
@example(steps=NO_REPLY_AND_A_DEATH)
def test_a_kernel_that_keeps_what_it_says_runs_each_cell_once_and_in_order(
    drops_repeats: bool, steps: list[str]
) -> None:
    kernel = NotedKernel(has_line=True, drops_repeats=drops_repeats)
    asked, replies = played(kernel, steps)
    assert kernel.ran == asked
    assert [cell for cell, status in replies if status == "ok"] == [
        cell for cell in asked if cell not in kernel.swallowed
    ]
    assert sorted(cell for cell, status in replies if status == "error") == sorted(kernel.swallowed)


@settings(max_examples=100, deadline=None)
@given(steps=STEPS)
@example(steps=LATE_REPLY)
@example(steps=DEATH_BEFORE_THE_REPLY)
@example(steps=NO_REPLY_AND_A_DEATH)
def test_any_other_kernel_runs_no_cell_twice_and_each_gets_one_reply(steps: list[str]) -> None:
    kernel = NotedKernel(has_line=False)
    asked, replies = played(kernel, steps)
    assert max(Counter(kernel.ran).values(), default=1) == 1
    assert sorted(cell for cell, _ in replies) == sorted(asked)
    if "unwatched" not in steps:
        succeeded = {cell for cell, status in replies if status == "ok"}
        assert succeeded - kernel.swallowed == set(kernel.ran) - kernel.swallowed


def test_a_kernel_without_an_agent_drops_old_output_for_room_and_never_a_reply() -> None:
    buffer, replies = ResendBuffer(), []
    for number in range(1, 40):
        is_output = number % 5 > 0
        size = number * 1024 * 1024 if is_output else 10
        buffer.add(Channel.IOPUB if is_output else Channel.SHELL, [bytes(size)], is_output=is_output)
        replies += [] if is_output else [number]
        assert buffer.buffered_bytes <= MOST_BYTES
    kept = [parse_head(frames[0]) for frames in buffer.attached(0, b"agent")]
    assert [number for channel, number in filter(None, kept) if channel == Channel.SHELL] == replies
    assert (Channel.IOPUB, 39) in kept
