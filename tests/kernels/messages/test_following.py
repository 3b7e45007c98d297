"""Readers of a kernel's record: no order of events makes one of them miss a message or get it twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.kernels.messages.clients import LocalClients
from jupyter_tpu.kernels.messages.fanout import SLACK_BYTES, RecordFanout, Subscriber

OnMessage = Callable[[int, str, list[bytes]], None]


class NotedRecord:
    """A worker's record of a kernel, from seq 1 unless the oldest ones are gone, with the streams that read it."""

    def __init__(self) -> None:
        self.first_seq = 1
        self.next_seq = 1
        self.size = 10
        self.streams: list[NotedStream] = []

    def attach(self, from_seq: Any, on_message: OnMessage, on_express: OnMessage) -> Any:
        stream = NotedStream(self, self.next_seq if from_seq == "end" else max(from_seq, 1), on_message, on_express)
        self.streams.append(stream)
        return stream

    def grow(self, count: int) -> None:
        self.next_seq += count

    def trim(self, count: int) -> None:
        self.first_seq = min(self.first_seq + count, self.next_seq)

    @property
    def replies(self) -> range:
        return range(3, self.next_seq, 3)

    @property
    def open_streams(self) -> list[NotedStream]:
        return [stream for stream in self.streams if not stream.is_closed]


class NotedStream:
    """A kernel's stream that moves when it is told to."""

    def __init__(self, record: NotedRecord, next_seq: int, on_message: OnMessage, on_express: OnMessage) -> None:
        self._record = record
        self._on_express = on_express
        self._on_message = on_message
        self.applied_seq = next_seq - 1
        self.has_begun = True
        self.is_closed = False
        self.is_held = False

    def hold(self) -> None:
        self.is_held = True

    def resume(self) -> None:
        self.is_held = False

    def close(self) -> None:
        self.is_closed = True

    def bring(self, count: int) -> None:
        """Deliver what comes next; the rest of a slice also arrives at a stream that was closed while it was read."""
        was_closed = self.is_closed
        for _ in range(count if not was_closed else 0):
            if self.applied_seq + 1 < self._record.first_seq:
                self._tell_cut()
            if self.applied_seq + 1 == self._record.next_seq:
                return
            self.applied_seq += 1
            channel = "shell" if self.applied_seq in self._record.replies else "iopub"
            self._on_message(self.applied_seq, channel, [b"x" * self._record.size])

    def overtake(self, count: int) -> None:
        """Deliver the newest message, or one `count` before it, ahead of its turn."""
        seq = self._record.next_seq - 1 - count
        if self.applied_seq < seq < self._record.next_seq:
            self._on_express(seq, "control", [b"x"])

    def _tell_cut(self) -> None:
        cut = {"event": "cut", "first_seq": self.applied_seq + 1, "last_seq": self._record.first_seq - 1}
        self.applied_seq = self._record.first_seq - 1
        self._on_message(self.applied_seq, "event", [json.dumps(cut).encode()])

    def refuse(self) -> None:
        self.is_closed = True
        self._on_message(self.applied_seq, "event", [json.dumps({"event": "gone"}).encode()])


@dataclass
class Noter:
    """A reader's consumer."""

    first_seq: int
    seqs: list[int] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    early: set[int] = field(default_factory=set)
    taken_bytes: int = 0

    def take(self, seq: int, channel: str, parts: list[bytes]) -> None:
        self.taken_bytes += len(parts[0])
        if channel == "event":
            event = json.loads(parts[0])
            self.events.append(event)
            missing = range(event["first_seq"], event["last_seq"] + 1) if event["event"] == "cut" else ()
            self.seqs += [seq for seq in missing if seq not in self.early]
        else:
            self.seqs.append(seq)
            self.early |= {seq} if channel == "control" else set()


class Readers:
    """A record and its readers, to which things happen."""

    def __init__(self) -> None:
        self.record = NotedRecord()
        self.following = RecordFanout()
        self.readers: list[tuple[Subscriber, Noter]] = []
        self.connect()

    def connect(self) -> None:
        self.following.connect(self.record.attach, lambda seq, channel, parts: None)

    def read(self, from_seq: Any) -> Noter:
        first = self.following.next_seq if from_seq == "end" else from_seq
        noter = Noter(first or 1)
        self.readers.append((self.following.read(noter.take, from_seq), noter))
        return noter

    def settle(self) -> None:
        """Let everybody read to the end."""
        for reader, _ in self.readers:
            reader.resume()
        while moving := [stream for stream in self.record.open_streams if self._may_move(stream)]:
            moving[0].bring(3)

    def _may_move(self, stream: NotedStream) -> bool:
        return not stream.is_held and stream.applied_seq + 1 < self.record.next_seq

    def lose_link(self) -> None:
        self.following.disconnect()
        self.connect()

    def happen(self, what: str, number: int) -> None:
        happenings: dict[str, Callable[[int], Any]] = {
            "print": self.record.grow,
            "trim": self.record.trim,
            "bring": lambda number: self._pick(self.record.open_streams, number).bring(number),
            "overtake": lambda number: self._pick(self.record.open_streams, number).overtake(number),
            "pause": lambda number: self._pick(self.readers, number)[0].pause(),
            "resume": lambda number: self._pick(self.readers, number)[0].resume(),
            "read": lambda number: self.read(min(number + 1, self.record.next_seq)),
            "read end": lambda _: self.read("end"),
            "close": lambda number: self.readers.pop(number % len(self.readers))[0].close(),
            "lose link": lambda _: self.lose_link(),
        }
        happenings[what](number)

    @staticmethod
    def _pick(things: list[Any], number: int) -> Any:
        return things[number % len(things)]


OFTEN = ("print", "bring", "bring", "pause", "resume")
SELDOM = ("print", "bring", "overtake", "read", "read end", "close", "trim", "lose link")
HAPPENINGS = st.tuples(st.sampled_from(OFTEN + SELDOM), st.integers(0, 7))


@given(st.lists(HAPPENINGS, max_size=60), st.sampled_from([10, SLACK_BYTES // 2]))
def test_each_reader_gets_each_message_once_and_in_order(happenings: list[tuple[str, int]], size: int) -> None:
    readers = Readers()
    readers.record.size = size
    readers.read(1)
    for what, number in happenings:
        if readers.readers or what not in ("pause", "resume", "close"):
            readers.happen(what, number)
    readers.settle()
    for _, noter in readers.readers:
        assert sorted(noter.seqs) == list(range(noter.first_seq, readers.record.next_seq))
        in_turn = [seq for seq in noter.seqs if seq not in noter.early]
        assert in_turn == sorted(in_turn)
    assert len(readers.record.open_streams) == 1


def test_a_reader_that_does_not_go_on_takes_little_and_stops_nobody() -> None:
    readers = Readers()
    slow, fast = readers.read(1), readers.read(1)
    readers.record.size = SLACK_BYTES // 4
    readers.readers[0][0].pause()
    readers.record.next_seq = 100
    readers.record.streams[0].bring(100)
    assert slow.taken_bytes <= SLACK_BYTES + readers.record.size
    assert fast.seqs == list(range(1, 100))


def test_the_live_stream_is_held_while_nobody_there_wants_more() -> None:
    readers = Readers()
    readers.read(1)
    readers.readers[0][0].pause()
    assert readers.record.streams[0].is_held
    other = readers.read("end")
    assert not readers.record.streams[0].is_held
    readers.record.next_seq = 3
    readers.settle()
    assert other.seqs == [1, 2]


def test_a_place_in_a_record_that_was_removed_leads_to_the_beginning_of_the_next() -> None:
    readers = Readers()
    readers.record.next_seq = 4
    late = readers.read(1000)
    readers.record.streams[-1].refuse()
    readers.settle()
    assert [event["event"] for event in late.events] == ["new_record"]
    assert late.seqs == [1, 2, 3]


def test_a_kernel_taken_up_at_the_end_of_its_record_is_read_from_before_it_all_the_same() -> None:
    readers = Readers()
    readers.following.disconnect()
    readers.record.next_seq = 6
    readers.following.begin_at_end()
    readers.connect()
    live = readers.record.streams[-1]
    live.has_begun = False
    new, old = readers.read("end"), readers.read(2)
    readers.settle()
    live.has_begun = True
    readers.record.next_seq = 8
    readers.settle()
    assert old.seqs == [2, 3, 4, 5, 6, 7]
    assert new.seqs == [6, 7]
    assert readers.record.open_streams == [live]


def test_readers_follow_a_kernel_that_was_forgotten_into_its_next_record() -> None:
    readers = Readers()
    noter = readers.read(1)
    readers.record.next_seq = 6
    readers.settle()
    readers.record.streams[0].refuse()
    readers.record = NotedRecord()
    readers.connect()
    readers.record.next_seq = 3
    readers.settle()
    assert [event["event"] for event in noter.events] == ["gone"]
    assert noter.seqs == [1, 2, 3, 4, 5, 1, 2]


def test_a_seq_that_was_taken_early_of_a_record_that_is_gone_is_taken_of_the_next_one() -> None:
    readers = Readers()
    noter = readers.read(1)
    readers.record.next_seq = 4
    readers.record.streams[0].overtake(1)
    readers.record.streams[0].refuse()
    readers.record = NotedRecord()
    readers.connect()
    readers.record.next_seq = 5
    readers.settle()
    assert noter.seqs == [2, 1, 2, 3, 4]


class NotedBridge:
    """A bridge whose clients read no output while it is full."""

    def __init__(self) -> None:
        self.delivered: list[tuple[int, str]] = []

    def deliver(self, seq: int, channel: str, parts: list[bytes]) -> None:
        self.delivered.append((seq, channel))


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))
def test_replies_that_were_let_past_output_are_not_delivered_again(first: int, second: int, third: int) -> None:
    readers, bridge = Readers(), NotedBridge()
    readers.record.size = SLACK_BYTES
    clients = LocalClients(bridge, readers.following, 0)  # type: ignore[arg-type]
    readers.record.grow(first)
    readers.settle()
    clients.hold()
    readers.record.grow(second)
    readers.settle()
    clients.let_replies_pass()
    readers.settle()
    assert {seq for seq, channel in bridge.delivered if channel == "shell"} == set(readers.record.replies)
    readers.record.grow(third)
    clients.resume()
    readers.settle()
    assert sorted(seq for seq, _ in bridge.delivered) == list(range(1, readers.record.next_seq))
    output = [seq for seq, channel in bridge.delivered if channel == "iopub"]
    assert output == sorted(output)
    assert len(readers.record.open_streams) == 1


@pytest.mark.parametrize("is_early", ["before replies pass", "while they pass"])
def test_a_reply_that_overtook_output_is_not_delivered_again_when_replies_are_let_past(is_early: str) -> None:
    readers, bridge = Readers(), NotedBridge()
    readers.record.size = SLACK_BYTES
    clients = LocalClients(bridge, readers.following, 0)  # type: ignore[arg-type]
    clients.hold()
    readers.record.grow(6)
    if is_early == "before replies pass":
        readers.record.streams[0].overtake(0)
    clients.let_replies_pass()
    if is_early == "while they pass":
        readers.record.streams[-1].overtake(0)
    readers.settle()
    clients.resume()
    readers.settle()
    assert sorted(seq for seq, _ in bridge.delivered) == list(range(1, 7))
