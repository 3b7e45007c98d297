"""Two ends of a byte stream and the bytes between them, without any connection."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.wire.byte_streams import LEAST_WINDOW_BYTES, FlowControl, checked_target
from jupyter_tpu.wire.frames import Kind, ProtocolError, encode_frame

MOST = 512 * 1024


def read_all(end: FlowControl) -> bytes:
    pieces = []
    while piece := end.take(100_000):
        pieces.append(piece)
    return b"".join(pieces)


@given(st.lists(st.tuples(st.integers(0, 300_000), st.booleans(), st.integers(1, 400_000)), max_size=12))
def test_every_byte_arrives_once_and_in_order(steps: list[tuple[int, bool, int]]) -> None:
    sender, receiver = FlowControl(MOST), FlowControl(MOST)
    sent, got, now = bytearray(), bytearray(), 0.0
    for size, does_read, cut in [*steps, *[(0, True, 1 << 20)] * 40]:
        piece = bytes([len(sent) % 251]) * size
        sent += piece
        sender.send(piece)
        frames = sender.frames(now)
        for part in (frames[:cut], frames[cut:]):
            receiver.feed(part, now)
        if does_read:
            got += read_all(receiver)
        now += 0.01
        sender.feed(receiver.frames(now), now)
    assert got == sent
    sender.end()
    receiver.feed(sender.frames(now), now)
    assert receiver.take(1) == b""
    assert sender.is_delivered


def test_a_sender_stops_while_nobody_reads() -> None:
    sender, receiver = FlowControl(MOST), FlowControl(MOST)
    sender.send(bytes(4 * MOST))
    receiver.feed(sender.frames(0.0), 0.0)
    assert receiver.frames(0.0) == b""
    assert sender.queued == 4 * MOST - LEAST_WINDOW_BYTES
    assert len(read_all(receiver)) == LEAST_WINDOW_BYTES
    sender.feed(receiver.frames(0.1), 0.1)
    assert sender.frames(0.1)


def test_the_end_waits_for_the_data_before_it() -> None:
    sender, receiver = FlowControl(MOST), FlowControl(MOST)
    sender.send(b"last words")
    sender.end()
    sender.send(b"too late")
    receiver.feed(sender.frames(0.0), 0.0)
    assert not sender.is_delivered
    assert (receiver.take(4), receiver.take(100), receiver.take(100)) == (b"last", b" words", b"")
    sender.feed(receiver.frames(0.1), 0.1)
    assert sender.is_delivered


@pytest.mark.parametrize(
    "frames",
    [
        encode_frame(Kind.DATA, number=5, payload=b"x"),
        encode_frame(Kind.DATA) + encode_frame(Kind.DATA, payload=b"x"),
        encode_frame(Kind.ACK, number=1),
        encode_frame(Kind.CALL, payload=b"{}"),
        b"".join(encode_frame(Kind.DATA, number=n << 19, payload=bytes(1 << 19)) for n in range(3)),
    ],
    ids=["gap", "after its end", "never sent", "another kind", "more than the window"],
)
def test_a_peer_that_breaks_the_rules_is_noticed(frames: bytes) -> None:
    with pytest.raises(ProtocolError):
        FlowControl(MOST).feed(frames, 0.0)


def test_a_target_is_a_folder_or_a_port() -> None:
    assert checked_target({"files": "my project"}) == ("files", "my project")
    assert checked_target({"port": 6006}) == ("port", 6006)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"files": ""},
        {"files": "a\0b"},
        {"files": "x" * 4096},
        {"files": 7},
        {"port": 0},
        {"port": 65536},
        {"port": "80"},
        {"port": True},
        {"port": 80.0},
        {"host": "10.0.0.1"},
    ],
)
def test_nothing_else_can_be_opened(content: dict[str, object]) -> None:
    with pytest.raises(ProtocolError, match="cannot open"):
        checked_target(content)
