"""The envelope: whatever the pieces, the same frames; whatever the garbage, a ProtocolError."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.wire.frames import (
    FROM_AGENT,
    FROM_CLIENT,
    REQUEST_BYTES,
    Frame,
    FrameDecoder,
    Kind,
    ProtocolError,
    encode_frame,
    encode_json,
    json_object,
)

WITH_PAYLOAD = sorted({Kind.HELLO, Kind.CALL, Kind.ATTACH, Kind.REQUEST})
frames = st.builds(
    Frame,
    st.sampled_from(WITH_PAYLOAD),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=300),
)


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    """`data` cut into pieces of the given sizes, and the rest."""
    found, at = [], 0
    for size in sizes:
        found.append(data[at : at + size])
        at += size
    return [*found, data[at:]]


@given(st.lists(frames, max_size=8), st.lists(st.integers(0, 40), max_size=60))
def test_frames_come_out_as_they_went_in_whatever_the_pieces(sent: list[Frame], sizes: list[int]) -> None:
    data = b"".join(encode_frame(frame.kind, frame.stream, frame.number, frame.payload) for frame in sent)
    decoder = FrameDecoder(FROM_CLIENT)
    assert [frame for piece in pieces(data, sizes) for frame in decoder.feed(piece)] == sent


@given(st.binary(max_size=400), st.sampled_from([FROM_AGENT, FROM_CLIENT]))
def test_garbage_gives_frames_or_a_protocol_error_and_nothing_else(data: bytes, accepts: frozenset[Kind]) -> None:
    decoder = FrameDecoder(accepts)
    try:
        for frame in decoder.feed(data):
            assert frame.kind in accepts
    except ProtocolError:
        with pytest.raises(ProtocolError):
            list(decoder.feed(b"more"))


@pytest.mark.parametrize(
    ("kind", "length"),
    [
        (Kind.HELLO, 64 * 1024 + 1),
        (Kind.REQUEST, REQUEST_BYTES + 1),
        (Kind.PING, 1),
        (Kind.ACK, 2**32 - 1),
    ],
)
def test_a_frame_that_is_too_large_is_refused_before_it_arrives(kind: Kind, length: int) -> None:
    with pytest.raises(ProtocolError, match="larger than agreed"):
        list(FrameDecoder(FROM_CLIENT).feed(struct.pack("!IBIQ", length, kind, 0, 0)))


@pytest.mark.parametrize("kind", [0, 99, Kind.DATA])
def test_a_kind_that_the_peer_may_not_send_is_refused(kind: int) -> None:
    with pytest.raises(ProtocolError, match="not expected"):
        list(FrameDecoder(FROM_CLIENT).feed(struct.pack("!IBIQ", 0, kind, 0, 0)))


def test_an_http_server_is_not_taken_for_an_agent() -> None:
    with pytest.raises(ProtocolError):
        list(FrameDecoder(FROM_AGENT).feed(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"))


@pytest.mark.parametrize("payload", [b"", b"[]", b"1", b"{", b"\xff", b'"text"', b"[" * 100_000])
def test_what_is_not_a_json_object_is_a_protocol_error(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        json_object(payload)


@pytest.mark.parametrize("number", [b"NaN", b"-Infinity", b"1e999", b"1" + b"0" * 400])
def test_what_is_no_number_to_a_browser_or_a_float_is_none(number: bytes) -> None:
    assert json_object(b'{"at": %s, "seq": 18446744073709551616, "load": 0.5}' % number) == {
        "at": None,
        "seq": 2**64,
        "load": 0.5,
    }


def test_json_travels_in_a_frame() -> None:
    (frame,) = FrameDecoder(FROM_CLIENT).feed(encode_json(Kind.CALL, {"method": "größe"}, number=7))
    assert (frame.number, frame.json()) == (7, {"method": "größe"})
