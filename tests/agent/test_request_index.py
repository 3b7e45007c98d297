"""What counts as work of a kernel, by what it says itself."""

from __future__ import annotations

import json

import pytest

from jupyter_tpu.agent.recording.request_index import RequestIndex
from jupyter_tpu.wire.entries import Entry
from jupyter_tpu.wire.multipart import Channel


def hear(index: RequestIndex, state: str, parent: str, time: float) -> None:
    """The kernel says that it is busy with a request of the kind `parent`, or no more."""
    header, parent_header = {"msg_type": "status"}, {"msg_type": parent, "msg_id": "1"}
    content = {"execution_state": state}
    parts = [json.dumps(part).encode() for part in (header, parent_header, {}, content)]
    index.observe(1, time, Channel.IOPUB, [b"<IDS|MSG>", b"", *parts], 100)


@pytest.mark.parametrize(
    ("parent", "after_s", "executes"),
    [
        ("execute_request", 0.1, True),
        ("comm_msg", 0.1, False),
        ("comm_msg", 5.0, True),
        ("comm_msg", -86400.0, True),  # the clock was set back by a day before this agent
        ("complete_request", 5.0, False),
    ],
)
def test_what_a_widget_does_in_a_moment_is_no_work(parent: str, after_s: float, executes: bool) -> None:
    index = RequestIndex()
    hear(index, "busy", parent, 100.0)
    assert index.is_executing(100.0 + after_s) is executes
    hear(index, "idle", parent, 110.0)
    assert not index.is_executing(120.0)


@pytest.mark.parametrize(
    ("parent", "state"),
    [
        ("execute_request", "busy"),
        ("complete_request", "busy"),
        ("kernel_info_request", "idle"),
        ("debug_request", "idle"),
    ],
)
def test_a_kernel_is_busy_with_what_jupyter_counts(parent: str, state: str) -> None:
    index = RequestIndex()
    assert index.execution_state == "starting"
    hear(index, "busy", parent, 100.0)
    assert index.execution_state == state
    hear(index, "idle", parent, 110.0)
    assert index.execution_state == "idle"


def test_a_reply_that_is_read_before_the_kernel_says_busy_still_counts() -> None:
    index = RequestIndex()

    def observe(seq: int, channel: int, kind: str, parent: dict[str, str], content: dict[str, str]) -> None:
        header = {"msg_type": kind, "msg_id": "1", "session": "a page"}
        parts = [json.dumps(part).encode() for part in (header, parent, {}, content)]
        index.observe(seq, 100.0, channel, [b"<IDS|MSG>", b"", *parts], 100)

    asked = {"msg_type": "execute_request", "msg_id": "1"}
    observe(1, Channel.REQUEST, "execute_request", {}, {"code": "1"})
    observe(2, Channel.SHELL, "execute_reply", asked, {"status": "ok"})
    observe(3, Channel.IOPUB, "status", asked, {"execution_state": "busy"})
    observe(4, Channel.IOPUB, "status", asked, {"execution_state": "idle"})
    assert [(request.state, request.status) for request in index.all()] == [("done", "ok")]


@pytest.mark.parametrize(
    ("content", "question", "may_be_seen"),
    [
        ({"password": False}, "q", True),
        ({"password": False}, "", True),
        ({"password": False}, "an older question", False),
        ({"password": True}, "q", False),
        ({"password": True}, "", False),
        ({}, "q", False),
    ],
)
def test_an_answer_may_be_seen_only_when_it_is_surely_no_password(
    content: dict[str, bool], question: str, may_be_seen: bool
) -> None:
    index = RequestIndex()

    def observe(seq: int, channel: int, kind: str, msg_id: str, parent: dict[str, str], content: object) -> Entry:
        parts = [json.dumps(part).encode() for part in ({"msg_type": kind, "msg_id": msg_id}, parent, {}, content)]
        index.observe(seq, 100.0, channel, [b"<IDS|MSG>", b"", *parts], 100)
        return Entry(seq, 100.0, channel, [b"<IDS|MSG>", b"", *parts])

    asked, header = {"msg_type": "execute_request", "msg_id": "r"}, json.dumps({"msg_id": question}).encode()
    observe(1, Channel.REQUEST, "execute_request", "r", {}, {"code": ""})
    assert not index.may_be_recorded(header)
    observe(2, Channel.STDIN, "input_request", "q", asked, content)
    assert index.may_be_recorded(header) is may_be_seen
    answer = observe(3, Channel.REQUEST, "input_reply", "a", {}, {})

    (request,) = index.all()
    assert not index.may_be_recorded(header)
    assert index.is_part(answer, request)
    assert (request.last_seq, request.bytes, request.messages) == (3, 300, 3)
