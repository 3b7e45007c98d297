"""What a page has got, by the pongs it sends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.server.websocket.acks import Acknowledgements


def test_what_is_written_has_not_arrived_before_its_pong() -> None:
    receipts = Acknowledgements(10)
    ping = receipts.write(15, has_messages=True)
    assert receipts.arrived == 10

    assert ping is not None
    assert receipts.confirm(ping)
    assert receipts.arrived == 15


def test_what_is_not_for_the_page_counts_as_arrived_with_all_before_it() -> None:
    receipts = Acknowledgements(10)
    assert receipts.write(12, has_messages=False) is None
    assert receipts.arrived == 12

    first = receipts.write(13, has_messages=True)
    assert receipts.write(14, has_messages=False) is None
    assert receipts.arrived == 12

    assert first is not None
    assert receipts.confirm(first)
    assert receipts.arrived == 13


@pytest.mark.parametrize(
    "payload",
    [b"", b"hello", b"jupyter_tpu", b"jupyter_tpu 0", b"jupyter_tpu 0 -1", b"jupyter_tpu 0 x", b"jupyter_tpu 0 21"],
)
def test_pongs_that_answer_no_ping_change_nothing(payload: bytes) -> None:
    receipts = Acknowledgements(10)
    receipts.write(20, has_messages=True)

    assert not receipts.confirm(payload)
    assert receipts.arrived == 10


def test_a_pong_for_the_record_before_says_nothing_of_the_next() -> None:
    receipts = Acknowledgements(10)
    ping = receipts.write(500, has_messages=True)
    receipts.reset()
    receipts.write(600, has_messages=True)

    assert ping is not None
    assert not receipts.confirm(ping)
    assert receipts.arrived == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=30))
def test_arrived_never_falls_nor_passes_what_was_written(steps: list[tuple[bool, int]]) -> None:
    receipts = Acknowledgements(0)
    pings: list[bytes] = []
    for seq, (said_something, answered) in enumerate(steps, start=1):
        before = receipts.arrived
        ping = receipts.write(seq, has_messages=said_something)
        pings += [ping] if ping else []
        for pong in pings[:answered]:
            receipts.confirm(pong)
        assert before <= receipts.arrived <= seq
