"""Numbering, deduplication, flow control and the greeting."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.wire.flow import MAX_WINDOW_BYTES, MIN_WINDOW_BYTES, Window
from jupyter_tpu.wire.frames import ProtocolError
from jupyter_tpu.wire.hello import PROTOCOLS, agent_hello, checked_client_id, client_hello, negotiate
from jupyter_tpu.wire.requests import SLOT_BYTES, Outbox, SeenRequests

ANN, BOB = "a" * 32, "b" * 32


def test_requests_are_kept_until_they_are_acknowledged() -> None:
    outbox = Outbox()
    first, second, third = (outbox.add(1, payload, requested_at=0.0) for payload in (b"a", b"b", b"c"))
    outbox.acknowledged(second.number)
    outbox.acknowledged(99)
    assert list(outbox.pending()) == [first, third]


def test_requests_of_a_closed_stream_are_dropped() -> None:
    outbox = Outbox()
    outbox.add(1, b"a", requested_at=0.0)
    kept = outbox.add(2, b"b", requested_at=0.0)
    outbox.drop(1)
    assert list(outbox.pending()) == [kept]


def test_a_request_is_accepted_once_per_client() -> None:
    seen = SeenRequests()
    assert seen.accept(ANN, 1)
    assert seen.accept(BOB, 1)
    assert seen.accept(ANN, 1) is None
    assert seen.accept(ANN, 2)
    assert seen.accept(ANN, 1) is None


@given(st.lists(st.tuples(st.sampled_from([ANN, BOB, "c" * 32]), st.integers(1, 20)), max_size=60))
def test_what_was_accepted_is_remembered_from_the_slots_alone(requests: list[tuple[str, int]]) -> None:
    file = bytearray()
    highest: dict[str, int] = {}
    for client, number in requests:
        slot = SeenRequests(bytes(file)).accept(client, number)
        assert (slot is not None) == (number > highest.get(client, 0))
        if slot is not None:
            position, data = slot
            file[position : position + SLOT_BYTES] = data
            highest[client] = number
    assert len(file) == SLOT_BYTES * len(highest)


def test_a_torn_slot_is_ignored() -> None:
    assert SeenRequests(b"x" * (SLOT_BYTES - 1)).accept(ANN, 1)


def test_the_window_begins_small_and_grows_with_rate_and_round_trip() -> None:
    window, now = Window(), 0.0
    assert window.room == MIN_WINDOW_BYTES
    for _ in range(200):
        sent = window.room
        window.sent(sent, now, starved=False)
        now += 0.05
        window.received(sent, now)
    assert MIN_WINDOW_BYTES < window.size <= MAX_WINDOW_BYTES


def test_a_slow_path_keeps_the_window_at_its_floor() -> None:
    window, now = Window(), 0.0
    for _ in range(100):
        window.sent(256 * 1024, now, starved=False)
        now += 0.05
        window.received(256 * 1024, now)
    assert window.size == MIN_WINDOW_BYTES


def test_a_quiet_kernel_does_not_shrink_the_window() -> None:
    window, now = Window(), 0.0
    for _ in range(50):
        sent = window.room
        window.sent(sent, now, starved=False)
        now += 0.02
        window.received(sent, now)
    wide = window.size
    for _ in range(5):
        window.sent(100, now, starved=True)
        now += 0.02
        window.received(100, now)
    assert window.size == wide


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2**20), st.floats(0, 5)), max_size=60))
def test_no_order_of_events_breaks_the_window(events: list[tuple[bool, int, float]]) -> None:
    window, now = Window(), 0.0
    for sends, size, wait in events:
        now += wait
        if sends:
            window.sent(min(size, window.room), now, starved=False)
        else:
            window.received(size, now)
        assert MIN_WINDOW_BYTES <= window.size <= MAX_WINDOW_BYTES
        assert window.in_flight >= 0
        assert 0 <= window.room <= window.size


def test_the_highest_common_protocol_is_used() -> None:
    assert negotiate([1, 2, 7], ours=(1, 2, 3)) == 2
    assert negotiate(client_hello(ANN, "1.0")["protocols"]) == PROTOCOLS[-1]
    assert negotiate(agent_hello({})["protocols"]) == PROTOCOLS[-1]


@pytest.mark.parametrize("theirs", [None, "1", [], [99], ["1"], {"1": 1}, [[1]]])
def test_no_common_protocol_is_an_error_that_names_both(theirs: Any) -> None:
    with pytest.raises(ProtocolError):
        negotiate(theirs)


@pytest.mark.parametrize("value", [None, "", 7, "A" * 32, "a" * 31, "../" * 11])
def test_a_client_id_is_32_hexadecimal_digits(value: Any) -> None:
    with pytest.raises(ProtocolError):
        checked_client_id(value)
