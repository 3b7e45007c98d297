"""Whatever stands in a record: nothing fails, and what is no message is skipped and counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.outputs import Reducer, compact, render

if TYPE_CHECKING:
    from conftest import Recorded

Reduce = Callable[..., Reducer]
KINDS = ["stream", "display_data", "update_display_data", "execute_result", "error", "clear_output", "status"]
KINDS += ["execute_input", "comm_open", "comm_msg", "execute_reply", "input_request", "input_reply", "execute_request"]
CHANNELS = ["iopub", "shell", "stdin", "request", "event", "control", "channel-9"]
NAMES = ["name", "text", "data", "metadata", "transient", "display_id", "execution_count", "execution_state", "wait"]
NAMES += [
    "msg_id",
    "msg_type",
    "traceback",
    "ename",
    "evalue",
    "comm_id",
    "state",
    "payload",
    "source",
    "status",
    "event",
]
leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.sampled_from(["r", "idle", "page"]))
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
)
part = st.one_of(st.binary(max_size=20), st.builds(lambda value: json.dumps(value).encode(), anything))
headers = st.builds(
    lambda kind, more: json.dumps({**more, "msg_type": kind, "msg_id": "r"}).encode(),
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(NAMES), anything, max_size=2),
)
messages = st.builds(
    lambda before, parts: [*before, b"<IDS|MSG>", b"", *parts],
    st.lists(st.binary(max_size=3), max_size=2),
    st.tuples(headers | part, headers | part, part, part),
)
entries = st.tuples(st.sampled_from(CHANNELS), messages | st.lists(part, max_size=6))


@given(st.lists(entries, max_size=20))
def test_no_order_of_nonsense_breaks_it(reduce: Reduce, nonsense: list[tuple[str, list[bytes]]]) -> None:
    reducer = reduce(nonsense)

    for request in reducer.requests.values():
        json.dumps([request.state, request.status, request.code, request.session, request.cell_id, compact(request)])


def nested(depth: int) -> bytes:
    return b'{"name": "stdout", "text": "a", "more": ' + b"[" * depth + b"]" * depth + b"}"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{} {}",
        b'{"name": "stdout"}',
        b'{"name": "stdout", "text": 7}',
        b'{"name": ["stdout"], "text": "a"}',
        b'{"name": "stdout", "text": "a", "more": NaN}',
        b'{"name": "stdout", "text": "a", "more": 1e999}',
        b'{"name": "stdout", "text": "a", "more": ' + b"9" * 100_000 + b"}",
        nested(100_000),
    ],
    ids=lambda content: content[:30].decode(),
)
def test_a_message_that_is_none_is_skipped_and_counted(recorded: Recorded, reduce: Reduce, content: bytes) -> None:
    channel, parts = recorded.said("stream", name="", text="")

    reducer = reduce(
        [recorded.asked("r"), (channel, [*parts[:-1], content]), recorded.said("stream", name="a", text="b")]
    )

    assert reducer.skipped == 1
    assert [output["text"] for output in render(reducer.requests["r"]).outputs] == ["b"]


def test_what_can_be_read_can_be_written(recorded: Recorded, reduce: Reduce) -> None:
    """At every depth: reading and writing must not differ in how deep they go."""
    channel, parts = recorded.said("display_data")
    for depth in range(800, 1000, 3):
        content = b'{"metadata": {}, "data": {"application/json": ' + b"[" * depth + b"]" * depth + b"}}"
        request = reduce([recorded.asked("r"), (channel, [*parts[:-1], content])]).requests["r"]

        assert json.dumps({"requests": [{"outputs": render(request).outputs, "messages": compact(request)}]})


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("display_data", {"data": [], "metadata": {}}),
        ("display_data", {"data": {}, "metadata": "x"}),
        ("display_data", {"data": {}, "transient": {"display_id": {}}}),
        ("display_data", {"data": {}, "transient": [1]}),
        ("update_display_data", {"data": {}, "transient": {"display_id": 7}}),
        ("error", {"ename": "E", "evalue": 1, "traceback": []}),
        ("error", {"ename": "E", "evalue": "", "traceback": [None]}),
        ("error", {"ename": "E"}),
        ("comm_open", {"data": {}}),
    ],
)
def test_fields_of_the_wrong_type_are_skipped_and_counted(
    recorded: Recorded, reduce: Reduce, kind: str, content: dict[str, Any]
) -> None:
    reducer = reduce([recorded.asked("r"), recorded.said(kind, **content)])

    assert (reducer.skipped, render(reducer.requests["r"]).outputs) == (1, [])


@pytest.mark.parametrize("count", [True, -1, 2**60, 1.5, "7", [7]])
def test_an_execution_count_that_is_none_is_not_taken_over(recorded: Recorded, reduce: Reduce, count: Any) -> None:
    result = recorded.said("execute_result", data={}, metadata={}, execution_count=count)

    request = reduce([recorded.asked("r"), recorded.said("execute_input", execution_count=count), result]).requests["r"]

    assert request.execution_count is None
    assert render(request).outputs[0]["execution_count"] is None


def test_half_characters_and_broken_bytes_are_carried_on(recorded: Recorded, reduce: Reduce) -> None:
    channel, parts = recorded.said("stream")
    printed = [*parts[:-1], b'{"name": "stdout", "text": "\\ud800 \xff \\u0000"}']

    request = reduce([recorded.asked("r"), (channel, printed)]).requests["r"]

    assert json.dumps(render(request).outputs[0]["text"]) == '"\\ud800 \\ufffd \\u0000"'
    assert render(request).omitted_bytes == 0


def test_a_request_may_ask_anything_without_having_a_cell(recorded: Recorded, reduce: Reduce) -> None:
    odd = recorded.entry("request", "execute_request", {"code": 7}, {}, {"cellId": 7}, "r")

    request = reduce([odd]).requests["r"]

    assert (request.code, request.cell_id, request.state) == ("", None, "queued")
