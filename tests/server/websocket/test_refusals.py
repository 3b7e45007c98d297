"""Messages that are too large for a client, told from those that a connection only happened to end at."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jupyter_tpu.server.websocket.page_messages import PageMessage, small_reply
from jupyter_tpu.server.websocket.too_large import TOO_BIG, InFlight, Refusals

HERE = ("kernel", "session", 7)
LARGE = 10_000_000


@pytest.mark.parametrize(
    ("ends", "size", "is_refused"),
    [
        ([TOO_BIG], 1_000, True),
        ([None], LARGE, False),
        ([None, 1006], LARGE, True),
        ([None] * 4, 40_000, False),
        ([None] * 5, 40_000, True),
        ([None] * 9, 30_000, False),
    ],
)
def test_a_message_is_refused_by_code_1009_or_when_connections_have_ended_at_it_twice_if_it_is_large(
    ends: list[int | None], size: int, is_refused: bool
) -> None:
    refusals = Refusals()
    for close_code in ends:
        refusals.add(HERE, size, close_code)

    assert refusals.has(HERE, size) == is_refused
    assert not refusals.has(("kernel", "another session", 7), size)
    assert not refusals.has(HERE, size - 1)
    assert (refusals.smallest("kernel", "session") == size) == (size > 32_000 or TOO_BIG in ends)
    assert refusals.smallest("kernel", "another session") > LARGE


def test_a_new_record_begins_with_nothing_refused() -> None:
    refusals = Refusals()
    refusals.add(HERE, LARGE, TOO_BIG)
    refusals.reset_kernel("another kernel")
    assert refusals.has(HERE, LARGE)

    refusals.reset_kernel("kernel")

    assert not refusals.has(HERE, LARGE)


def test_what_a_page_has_refused_is_the_largest_of_what_has_not_arrived() -> None:
    on_the_way = InFlight()
    for seq, size in [(1, 900), (2, 100), (3, 500), (0, 10_000), (4, 300)]:
        on_the_way.write(seq, size)

    assert on_the_way.largest == (1, 900)
    on_the_way.arrived(2)
    assert on_the_way.largest == (3, 500)
    on_the_way.arrived(3)
    assert on_the_way.largest == (4, 300)
    on_the_way.arrived(4)
    assert on_the_way.largest is None


@pytest.mark.parametrize(
    ("kind", "content", "status"),
    [
        ("execute_reply", {"status": "ok", "execution_count": 3, "user_expressions": {"x": "y" * LARGE}}, "ok"),
        ("execute_reply", {"status": "error", "traceback": ["y" * LARGE]}, "error"),
        ("inspect_reply", {"status": "ok", "data": {"text/plain": "y" * LARGE}}, "error"),
    ],
)
def test_whoever_waits_for_a_reply_that_is_too_large_gets_a_small_one(
    kind: str, content: dict[str, Any], status: str
) -> None:
    reply = PageMessage.made({"msg_type": kind}, b"{}", content, channel="shell").at(7)

    small = small_reply(reply, "words")

    told = json.loads(small.content)
    assert (small.seq, small.msg_type, small.size < 1000) == (7, kind, True)
    assert (told["status"], told.get("execution_count")) == (status, content.get("execution_count"))
