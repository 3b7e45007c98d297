"""What a page gets of a flood."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.server.websocket.page_messages import PageMessage
from jupyter_tpu.server.websocket.stream_merging import MERGED_CHARACTERS
from jupyter_tpu.server.websocket.text_limit import TAIL_CHARACTERS, UPDATE_S, TextLimit, shown_after
from jupyter_tpu.server.websocket.truncation_notices import text_url, truncation_notice

LIMIT = 1_000


def header(kind: str) -> dict[str, Any]:
    return {"msg_id": "made", "msg_type": kind}


def describe(msg_id: str, left_out_bytes: int, last_text: str) -> Mapping[str, str]:
    return {"request": msg_id, "bytes": str(left_out_bytes), "last": last_text}


class Feed:
    """A kernel that speaks, and what a page heard of it."""

    def __init__(self, text_limit: int = LIMIT) -> None:
        self.floods = TextLimit(header, describe, text_limit=text_limit)
        self.now = 0.0
        self.said: list[PageMessage] = []
        self.heard: list[PageMessage] = []

    def say(self, kind: str, content: Mapping[str, Any], request: str = "r1", channel: str = "iopub") -> PageMessage:
        parent_header = json.dumps({"msg_id": request}).encode()
        made = PageMessage.made({"msg_id": f"m{len(self.said)}", "msg_type": kind}, parent_header, content)
        place = len(self.said) + 1
        message = PageMessage(
            channel=channel,
            header=made.header,
            parent_header=parent_header,
            metadata=b"{}",
            content=made.content,
            seq=place,
            first_seq=place,
        )
        self.said.append(message)
        return message

    def text(self, text: str, request: str = "r1", name: str = "stdout") -> PageMessage:
        return self.say("stream", {"name": name, "text": text}, request)

    def feed(self, *messages: PageMessage) -> list[PageMessage]:
        heard = self.floods.feed(messages, self.now)
        self.heard += heard
        return heard


def contents(messages: Sequence[PageMessage]) -> list[Any]:
    return [json.loads(message.content) for message in messages]


def texts(messages: Sequence[PageMessage]) -> str:
    return "".join(content.get("text", "") for content in contents(messages))


def kinds(messages: Sequence[PageMessage]) -> list[str]:
    return [message.msg_type for message in messages]


def told_bytes(messages: Sequence[PageMessage]) -> dict[str, int]:
    """What each display of the floods says in the end."""
    last = {}
    for message in messages:
        if message.seq == 0:
            content = json.loads(message.content)
            last[content["transient"]["display_id"]] = int(content["data"]["bytes"])
    return last


def test_a_single_message_passes_as_the_kernel_wrote_it() -> None:
    feed = Feed()
    message = feed.text("hello\n")

    assert feed.feed(message) == [message]


def test_a_burst_becomes_one_message_that_says_where_it_begins_and_ends() -> None:
    feed = Feed()
    [merged] = feed.feed(*(feed.text(f"{number}\n") for number in range(5)))

    assert texts([merged]) == "0\n1\n2\n3\n4\n"
    assert (merged.first_seq, merged.seq, merged.header) == (1, 5, feed.said[-1].header)


@pytest.mark.parametrize("other", [{"name": "stderr"}, {"request": "r2"}])
def test_streams_and_requests_are_not_mixed(other: dict[str, str]) -> None:
    feed = Feed()
    messages = [feed.text("a"), feed.text("b", **other), feed.text("c")]

    assert feed.feed(*messages) == messages


def test_what_the_page_may_have_got_before_is_not_merged_with_what_it_has_not() -> None:
    feed = Feed()
    feed.floods.repeated_until = 3
    heard = feed.feed(*(feed.text(f"{number}\n") for number in range(6)))

    assert [(message.first_seq, message.seq) for message in heard] == [(1, 1), (2, 2), (3, 3), (4, 6)]


def test_a_merged_message_stays_small_enough_for_any_client() -> None:
    feed = Feed(text_limit=10**9)
    heard = feed.feed(*(feed.text("x" * 100_000) for _ in range(10)))

    assert max(len(text["text"]) for text in contents(heard)) <= MERGED_CHARACTERS
    assert texts(heard) == "x" * 1_000_000


def test_beyond_the_limit_a_display_says_how_much_more_there_is_and_the_end_follows() -> None:
    feed = Feed()
    lines = [f"line {number:06}\n" for number in range(40_000)]
    for place in range(0, len(lines), 100):
        feed.feed(*map(feed.text, lines[place : place + 100]))
    feed.feed(feed.say("status", {"execution_state": "idle"}))

    shown = texts(feed.heard)
    assert kinds(feed.heard)[-3:] == ["update_display_data", "stream", "status"]
    assert shown[: LIMIT - 12] == "".join(lines)[: LIMIT - 12]
    assert len(texts(feed.heard[-2:])) in range(TAIL_CHARACTERS - 100, TAIL_CHARACTERS + 1)
    assert "".join(lines).endswith(texts(feed.heard[-2:]))
    assert set(shown.splitlines(keepends=True)) <= set(lines)  # cut at line ends
    assert sum(told_bytes(feed.heard).values()) + len(shown) == len("".join(lines))


def test_a_notice_is_shown_though_the_cell_has_printed_too_much() -> None:
    feed = Feed()
    feed.feed(feed.text("x" * (LIMIT + 1)))
    feed.feed(replace(feed.text("[The disk is full.]\n", name="stderr"), is_notice=True))
    assert texts(feed.heard).endswith("[The disk is full.]\n")


def test_the_display_is_renewed_every_two_seconds_with_the_newest_lines() -> None:
    feed = Feed()
    feed.feed(feed.text("x" * 2 * LIMIT))
    assert feed.feed(feed.text("newest\n")) == []
    assert feed.floods.due_s == UPDATE_S

    assert feed.floods.renew(UPDATE_S - 0.1) == []
    [update] = feed.floods.renew(UPDATE_S)

    assert update.msg_type == "update_display_data"
    assert contents([update])[0]["data"]["last"].endswith("newest\n")
    assert contents([update])[0]["data"]["bytes"] == str(LIMIT + len("newest\n"))
    assert feed.floods.due_s is None


def test_while_text_keeps_coming_the_display_is_renewed_without_being_asked() -> None:
    feed = Feed()
    feed.feed(feed.text("x" * 2 * LIMIT))
    feed.now = UPDATE_S
    [update] = feed.feed(feed.text("y"), feed.text("z"))

    assert contents([update])[0]["data"]["bytes"] == str(LIMIT + 1)


def test_a_progress_bar_that_overwrites_itself_is_shown_for_ever() -> None:
    feed = Feed()
    bars = [feed.text(f"\r{number:6}%", name="stderr") for number in range(10_000)]
    for bar in bars:
        feed.feed(bar)

    assert feed.heard == bars


def test_after_clear_output_the_limit_counts_anew() -> None:
    feed = Feed()
    feed.feed(feed.text("x" * 2 * LIMIT))
    clear = feed.say("clear_output", {"wait": True})
    again = feed.text("y" * LIMIT)

    assert feed.feed(clear, again) == [clear, again]


def test_each_request_has_a_limit_of_its_own() -> None:
    feed = Feed()
    feed.feed(feed.text("x" * 2 * LIMIT))
    other = feed.text("y" * LIMIT, request="r2")

    assert feed.feed(other) == [other]


def test_text_before_an_error_is_shown_before_it() -> None:
    feed = Feed()
    feed.feed(feed.text("x" * 2 * LIMIT), feed.text("last words\n"))
    heard = feed.feed(feed.say("error", {"ename": "E", "evalue": "", "traceback": []}))

    assert kinds(heard) == ["update_display_data", "stream", "error"]
    assert texts(heard).endswith("last words\n")


def test_text_never_moves_behind_a_display_that_came_after_it() -> None:
    feed = Feed()
    feed.feed(feed.text("x" * 2 * LIMIT), feed.text("before\n"))
    heard = feed.feed(feed.say("display_data", {"data": {}}), feed.text("after\n"))
    heard += feed.feed(feed.say("status", {"execution_state": "idle"}))

    assert kinds(heard) == [
        *["update_display_data", "display_data", "display_data", "update_display_data", "stream", "status"]
    ]
    assert texts(heard) == "after\n"
    assert sum(told_bytes(feed.heard).values()) == LIMIT + len("before\n")


@pytest.mark.parametrize("kind", ["update_display_data", "comm_msg", "comm_open"])
def test_a_widget_that_moves_does_not_cost_the_page_the_end_of_the_text(kind: str) -> None:
    feed = Feed()
    feed.feed(feed.text("x" * 2 * LIMIT), feed.say(kind, {"data": {}}))
    heard = feed.feed(feed.say("status", {"execution_state": "idle"}))

    assert texts(heard) == "x" * LIMIT


def test_text_for_an_output_widget_is_not_shown_elsewhere() -> None:
    feed = Feed()
    captured = feed.say("comm_msg", {"data": {"method": "update", "state": {"msg_id": "r1"}}})
    feed.feed(feed.text("x" * 2 * LIMIT), captured)
    heard = feed.feed(feed.say("status", {"execution_state": "idle"}))

    assert texts(heard) == ""


def test_a_flood_of_single_characters_is_held_in_few_pieces() -> None:
    feed = Feed(text_limit=1)
    for _ in range(20):
        feed.feed(*(feed.text("ab", name=name) for name in ("stdout", "stderr") for _ in range(500)))
    heard = feed.feed(feed.say("status", {"execution_state": "idle"}))

    assert 0 < len(heard) < 1_100
    assert sum(told_bytes(feed.heard).values()) + len(texts(feed.heard)) == 40_000


@pytest.mark.parametrize("content", [{}, {"name": "stdout"}, {"name": 1, "text": "x"}, {"name": "stdout", "text": 5}])
def test_a_stream_message_that_makes_no_sense_passes_as_it_is(content: dict[str, Any]) -> None:
    feed = Feed()
    messages = [feed.say("stream", content), feed.say("stream", content)]

    assert feed.feed(*messages) == messages


@given(st.data())
def test_what_is_sent_and_what_is_told_to_be_left_out_is_all_that_came_in_order(data: st.DataObject) -> None:
    feed = Feed(text_limit=data.draw(st.integers(1, 200)))
    step = st.one_of(
        st.tuples(st.just("stream"), st.sampled_from(["r1", "r2"]), st.integers(1, 60)),
        st.tuples(
            st.sampled_from(["display_data", "update_display_data", "comm_msg", "error", "execute_result", "busy"]),
            st.sampled_from(["r1", "r2"]),
            st.just(0),
        ),
    )
    count = 0
    for batch in data.draw(st.lists(st.lists(step, max_size=6), max_size=12)):
        messages = []
        for kind, request, length in batch:
            if kind == "stream":
                text = "".join(f"<{number}>\n" for number in range(count, count + length))
                messages.append(feed.text(text, request))
                count += length
            elif kind == "busy":
                messages.append(feed.say("status", {"execution_state": "busy"}, request))
            else:
                messages.append(feed.say(kind, {"data": {}}, request))
        feed.feed(*messages)
        feed.now += data.draw(st.sampled_from([0.0, 1.0, 3.0]))
    feed.feed(*(feed.say("status", {"execution_state": "idle"}, request) for request in ("r1", "r2")))

    ours = [message for message in feed.heard if message.seq == 0]
    kernels = [message for message in feed.heard if message.seq]
    others = [message for message in feed.said if message.msg_type != "stream"]
    assert [message for message in kernels if message.msg_type != "stream"] == others
    for request in ("r1", "r2"):
        came = texts([message for message in feed.said if message.parent_id == request])
        sent = texts([message for message in kernels if message.parent_id == request])
        left_out = sum(told_bytes([message for message in ours if message.parent_id == request]).values())
        assert len(sent) + left_out == len(came)
        numbers = [int(number) for number in re.findall(r"<(\d+)>", sent)]
        assert numbers == sorted(numbers)
        outputs = [m for m in kernels if m.parent_id == request and m.msg_type in ("stream", "display_data", "error")]
        assert [message.seq for message in outputs] == sorted(message.seq for message in outputs)


def overwritten(text: str) -> str:
    """What a page shows of a text, slowly."""
    lines = []
    for line in text.split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown)
    return "\n".join(lines)


@given(st.lists(st.text(alphabet="ab\r\n", max_size=12), max_size=12))
def test_what_is_counted_is_what_a_page_shows(pieces: list[str]) -> None:
    shown = line = 0
    for piece in pieces:
        growth, line = shown_after(line, piece)
        shown += growth

    assert shown >= len(overwritten("".join(pieces)))
    if not any("\r" in piece for piece in pieces):
        assert shown == len("".join(pieces))


def test_the_words_name_the_size_and_lead_to_the_whole_text() -> None:
    url = text_url("/user/x/", "k1", "a b/c")
    words = truncation_notice(url, 812_000_000, "one\ntwo\n")

    assert words["text/plain"] == "812 MB more on the node\none\ntwo"
    assert 'href="/user/x/jupyter-tpu/v1/kernels/k1/requests/a%20b%2Fc/text"' in words["text/html"]
    assert 'href="/user/x/jupyter-tpu/v1/kernels/k1/requests/a%20b%2Fc/text?download=1"' in words["text/html"]


def test_what_a_kernel_prints_is_never_html_nor_an_escape_sequence() -> None:
    hostile = '<script>alert(1)</script>\x1b]8;;javascript:x\x07link\x1b[31mred\x1b[0m\x08\x00"\n50%\r100%\r'
    words = truncation_notice(text_url("/", '"><b>', "<i>"), 5_000, hostile)

    assert "<script" not in words["text/html"]
    assert "<b>" not in words["text/html"]
    assert "<i>" not in words["text/html"]
    assert "\x1b" not in words["text/plain"] + words["text/html"]
    assert words["text/plain"].endswith('linkred"\n100%')
