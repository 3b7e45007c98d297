"""Whatever a peer sends: a ProtocolError or sense, each seq once and in order, and never more memory than was sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.wire.entries import Entry, EntryDecoder, decode_entry, encode_entry
from jupyter_tpu.wire.frames import FROM_AGENT, FROM_CLIENT, FrameDecoder, Kind, ProtocolError, encode_frame
from jupyter_tpu.wire.hello import ACCEPTS, accepted, checked_client_id, checked_epoch, negotiate
from jupyter_tpu.wire.multipart import decode_request
from jupyter_tpu.wire.replay import Cut, Replay
from jupyter_tpu.wire.requests import Outbox, SeenRequests

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
kinds = st.sampled_from(list(Kind))
numbers = st.integers(0, 3) | st.integers(0, 2**64 - 1)
frames = st.builds(encode_frame, kinds, st.integers(0, 2) | st.integers(0, 2**32 - 1), numbers, st.binary(max_size=80))


def mutated(data: bytes, draw: Any) -> bytes:
    """`data` with some bytes changed, taken away, or put in."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(changed)))
        how = draw(st.sampled_from(["flip", "cut", "insert", "swap"]))
        if how == "flip" and at < len(changed):
            changed[at] ^= draw(st.integers(1, 255))
        elif how == "cut":
            del changed[at : at + draw(st.integers(1, 40))]
        elif how == "insert":
            changed[at:at] = draw(st.binary(max_size=40))
        else:
            changed = changed[at:] + changed[:at]
    return bytes(changed)


def pieces(data: bytes, draw: Any) -> Iterator[bytes]:
    while data:
        size = draw(st.integers(1, len(data)))
        yield data[:size]
        data = data[size:]


@given(st.lists(frames, max_size=6), st.sampled_from([FROM_AGENT, FROM_CLIENT]), st.data())
def test_mutated_frames_are_frames_that_the_peer_may_send_or_an_error(
    sent: list[bytes], accepts: frozenset[Kind], data: st.DataObject
) -> None:
    decoder = FrameDecoder(accepts)
    try:
        for piece in pieces(mutated(b"".join(sent), data.draw), data.draw):
            assert all(frame.kind in accepts for frame in decoder.feed(piece))
    except ProtocolError:
        return


@given(st.integers(1, 6), st.integers(0, 8), st.data())
def test_a_mutated_record_gives_each_seq_once_and_in_order_or_an_error(
    count: int, wanted: int, data: st.DataObject
) -> None:
    record = b"".join(encode_entry(seq, 0.0, 3, [b"body", b"%d" % seq]) for seq in range(1, count + 1))
    replay, got = Replay(wanted), []
    replay.position(0, 1)
    offset = 0
    try:
        for piece in pieces(mutated(record, data.draw), data.draw):
            got += list(replay.data(offset, piece))
            offset += len(piece)
    except ProtocolError:
        pass
    seqs = [item.seq for item in got if isinstance(item, Entry)]
    assert seqs == sorted(set(seqs))
    assert all(item.parts == [b"body", b"%d" % item.seq] for item in got if isinstance(item, Entry))
    covered = [(item.seq, item.seq) if isinstance(item, Entry) else (item.first_seq, item.last_seq) for item in got]
    assert all(before[1] + 1 == after[0] for before, after in pairwise(covered))


@given(st.binary(max_size=200))
def test_garbage_is_no_entry(garbage: bytes) -> None:
    try:
        entry = decode_entry(garbage)
    except ProtocolError:
        return
    assert encode_entry(entry.seq, entry.time, entry.channel, entry.parts) == garbage


@given(st.integers(1, 5), st.integers(0, 12), st.integers(1, 255))
def test_a_damaged_length_is_noticed_as_soon_as_the_next_entries_have_come(parts: int, at: int, flip: int) -> None:
    damaged = bytearray(encode_entry(1, 0.0, 3, [b"x" * 100] * parts))
    damaged[at if at < 4 else 20 + at % 2] ^= flip  # the length, or the number of parts
    decoder = EntryDecoder()
    try:
        got = list(decoder.feed(bytes(damaged) + encode_entry(2, 0.0, 3, [b"y" * 70_000] * 4)))
    except ProtocolError:
        return
    raise AssertionError(f"nothing was noticed: {got}")


@given(st.lists(st.tuples(st.integers(0, 2**64), st.integers(0, 2**64)), max_size=8))
def test_no_positions_make_a_cursor_go_back_or_beyond_all_bounds(positions: list[tuple[int, int]]) -> None:
    replay = Replay(1)
    for offset, seq in positions:
        before = replay.next_seq
        try:
            cut = replay.position(offset, seq)
        except ProtocolError:
            return
        assert cut is None or cut == Cut(before, replay.next_seq - 1)
        assert before <= replay.next_seq <= 2**63
        encode_frame(Kind.ATTACH, 1, replay.next_seq)


@given(st.binary(max_size=120), st.data())
def test_mutated_requests_are_requests_or_an_error(payload: bytes, data: st.DataObject) -> None:
    try:
        channel, parts = decode_request(mutated(payload, data.draw))
    except ProtocolError:
        return
    assert parts
    assert channel in (0, 1, 2)


@given(json_values)
def test_any_greeting_is_understood_or_an_error(value: Any) -> None:
    for check in (negotiate, checked_client_id, checked_epoch):
        with suppress(ProtocolError):
            check(value)
    assert accepted(value) <= set(ACCEPTS)


@given(json_values)
def test_any_json_in_a_frame_is_an_object_or_an_error(value: Any) -> None:
    (frame,) = FrameDecoder(FROM_CLIENT).feed(encode_frame(Kind.CALL, payload=json.dumps(value).encode()))
    try:
        assert frame.json() is not None
    except ProtocolError:
        assert not isinstance(value, dict)


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=30), st.integers(0, 30)), max_size=40))
def test_an_outbox_knows_its_size(steps: list[tuple[int, bytes, int]]) -> None:
    outbox = Outbox()
    for what, payload, number in steps:
        if what == 0:
            outbox.acknowledged(number)
        elif what == 1:
            outbox.drop(number % 3)
        else:
            outbox.add(number % 3, payload, requested_at=0.0)
        pending = list(outbox.pending())
        assert outbox.size == sum(len(request.payload) for request in pending)
        assert pending == sorted(pending, key=lambda request: request.number)


@given(st.binary(max_size=200), st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_a_damaged_memory_of_requests_still_never_passes_one_twice(slots: bytes, numbers: list[int]) -> None:
    seen, passed = SeenRequests(slots), []
    for number in numbers:
        if seen.accept("a" * 32, number):
            passed.append(number)
    assert passed == sorted(set(passed))
