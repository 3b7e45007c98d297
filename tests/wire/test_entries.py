"""Entries of a record, and the client's cursor over them."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.wire.entries import HEADER_BYTES, Entry, EntryDecoder, Room, decode_entry, encode_entry, entry_span
from jupyter_tpu.wire.frames import ProtocolError
from jupyter_tpu.wire.multipart import Channel, channel_name, decode_request, encode_request, pack_parts, unpack_parts
from jupyter_tpu.wire.replay import Cut, Replay

many_parts = st.lists(st.binary(max_size=60), max_size=8)


def record(count: int, first_seq: int = 1) -> bytes:
    return b"".join(encode_entry(seq, 0.0, 3, [b"%d" % seq]) for seq in range(first_seq, first_seq + count))


def seqs(items: object) -> list[object]:
    return [item if isinstance(item, Cut) else item.seq for item in items]  # type: ignore[attr-defined]


@given(many_parts)
def test_parts_come_out_as_they_went_in(parts: list[bytes]) -> None:
    assert unpack_parts(pack_parts(parts), len(parts)) == parts


@given(st.binary(max_size=60), st.integers(0, 2**16 - 1))
def test_garbage_is_no_parts(body: bytes, count: int) -> None:
    try:
        parts = unpack_parts(body, count)
    except ProtocolError:
        return
    assert pack_parts(parts) == body


@given(st.sampled_from([Channel.SHELL, Channel.CONTROL, Channel.STDIN]), many_parts.filter(bool))
def test_requests_come_out_as_they_went_in(channel: Channel, parts: list[bytes]) -> None:
    assert decode_request(encode_request(channel, parts)) == (channel, parts)


@given(st.binary(max_size=40))
def test_garbage_is_no_request(payload: bytes) -> None:
    try:
        channel, parts = decode_request(payload)
    except ProtocolError:
        return
    assert encode_request(channel, parts) == payload


@pytest.mark.parametrize("channel", [Channel.IOPUB, Channel.EVENT, 77])
def test_a_client_cannot_publish(channel: int) -> None:
    with pytest.raises(ProtocolError):
        decode_request(encode_request(channel, [b"x"]))  # type: ignore[arg-type]


def test_channels_of_a_newer_agent_have_a_name_too() -> None:
    assert [channel_name(number) for number in (0, 4, 9)] == ["shell", "event", "channel-9"]


@given(st.lists(many_parts, max_size=6), st.lists(st.integers(0, 50), max_size=40))
def test_entries_come_out_as_they_went_in_whatever_the_pieces(messages: list[list[bytes]], sizes: list[int]) -> None:
    sent = [Entry(seq, 1.5, 3, parts) for seq, parts in enumerate(messages, 1)]
    data = b"".join(encode_entry(entry.seq, entry.time, entry.channel, entry.parts) for entry in sent)
    decoder, at = EntryDecoder(), 0
    got: list[Entry] = []
    for size in [*sizes, len(data)]:
        got += decoder.feed(data[at : at + size])
        at += size
    assert got == sent


@given(st.data())
def test_no_flipped_bit_goes_unnoticed(data: st.DataObject) -> None:
    entry = bytearray(encode_entry(5, 2.0, 3, [b"some", b"parts"]))
    at = data.draw(st.integers(0, len(entry) - 1))
    entry[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ProtocolError):
        decode_entry(bytes(entry))


def test_an_absurd_length_is_refused_at_once() -> None:
    with pytest.raises(ProtocolError):
        entry_span(b"\xff" * HEADER_BYTES, 0)


def test_a_replay_gives_each_seq_once_over_cuts() -> None:
    data, replay = record(5), Replay(0)
    replay.position(0, 1)
    half = len(data) // 2
    got = seqs(replay.data(0, data[:half]))
    replay.disconnected()
    replay.position(0, 1)
    got += seqs(replay.data(0, data))
    assert got == [1, 2, 3, 4, 5]
    assert replay.next_seq == 6


def test_what_was_trimmed_shows_as_a_cut() -> None:
    replay = Replay(3)
    assert replay.position(1000, 10) == Cut(3, 9)
    assert seqs(replay.data(1000, record(2, first_seq=10))) == [10, 11]


def test_a_gap_inside_the_record_shows_as_a_cut() -> None:
    replay = Replay(1)
    replay.position(0, 1)
    assert seqs(replay.data(0, record(2) + record(1, first_seq=7))) == [1, 2, Cut(3, 6), 7]


def test_a_slice_at_the_wrong_place_is_refused() -> None:
    replay = Replay(1)
    replay.position(0, 1)
    with pytest.raises(ProtocolError):
        list(replay.data(5, record(1)))


def test_data_without_a_position_is_refused() -> None:
    with pytest.raises(ProtocolError):
        list(Replay(1).data(0, record(1)))


@given(st.lists(st.integers(0, 400), max_size=12), st.integers(1, 12))
def test_any_cuts_give_every_seq_once_in_order(cuts: list[int], count: int) -> None:
    data, replay, got = record(count), Replay(1), []
    offsets = {1: 0}
    for seq in range(1, count + 1):
        offsets[seq + 1] = offsets[seq] + len(record(1, first_seq=seq))
    for cut in [*cuts, len(data)]:
        start = offsets[replay.next_seq]
        replay.position(start, replay.next_seq)
        got += seqs(replay.data(start, data[start : start + cut]))
        replay.disconnected()
    assert got == list(range(1, len(got) + 1))
    assert len(got) == replay.next_seq - 1


def head_of(seq: int, size: int) -> bytes:
    """The header of an entry of one part of so many bytes, and the part's length."""
    checked = struct.pack("!IQdBH", size + 4, seq, 0.0, 3, 1)
    return checked + struct.pack("!I", 0) + struct.pack("!I", size)


def fed(replay: Replay, offset: int, data: bytes) -> list[Any]:
    return list(replay.data(offset, data))


def test_an_entry_that_is_too_large_is_left_out_by_its_header_and_the_next_one_comes() -> None:
    replay, size = Replay(1), 900 << 20
    replay.position(0, 1)
    head, piece = head_of(1, size), bytes(1 << 20)
    (told,) = fed(replay, 0, head)
    offset = len(head)
    for _ in range(900):
        assert not fed(replay, offset, piece)
        offset += len(piece)
        assert len(replay._decoder._buffer) == 0
    (after,) = fed(replay, offset, encode_entry(2, 0.0, 3, [b"after"]))

    assert (told.seq, json.loads(told.parts[0])) == (1, {"event": "too_large", "seq": 1, "bytes": size + 4})
    assert (after.seq, after.parts) == (2, [b"after"])


def test_all_streams_of_a_link_share_the_room_for_what_is_not_whole_yet() -> None:
    room, size = Room(100 << 20), 40 << 20
    replays = [Replay(1, room) for _ in range(3)]
    for replay in replays:
        replay.position(0, 1)
    told = [fed(replay, 0, head_of(1, size)) for replay in replays]
    assert [len(each) for each in told] == [0, 0, 1]

    replays[0].disconnected()
    replays[2].position(0, 2)
    assert not fed(replays[2], 0, head_of(2, size))
    data = encode_entry(2, 0.0, 3, [bytes(size)])
    replays[2].position(0, 2)
    (whole,) = fed(replays[2], 0, data)
    assert [len(part) for part in whole.parts] == [size]
    replays[0].position(0, 1)
    assert not fed(replays[0], 0, head_of(1, size))


def test_a_stream_that_its_reader_closes_keeps_no_room_for_the_rest_of_a_slice() -> None:
    room, size = Room(100 << 20), 60 << 20
    closed = Replay(1, room)
    closed.position(0, 1)
    for entry in closed.data(0, encode_entry(1, 0.0, 3, [b"small"]) + head_of(2, size)):
        assert isinstance(entry, Entry)
        closed.disconnected()
    other = Replay(1, room)
    other.position(0, 1)
    assert not fed(other, 0, head_of(1, size)), "left out, as no room was there"
