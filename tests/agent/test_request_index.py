"""What counts as work of a kernel, by what it says itself."""

from __future__ import annotations

import json

import pytest

from jupyter_tpu.agent.request_index import RequestIndex
from jupyter_tpu.wire.messages import Channel


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
        ("complete_request", 5.0, False),
    ],
)
def test_what_a_widget_does_in_a_moment_is_no_work(parent: str, after_s: float, executes: bool) -> None:
    index = RequestIndex()
    hear(index, "busy", parent, 100.0)
    assert index.is_executing(100.0 + after_s) is executes
    hear(index, "idle", parent, 110.0)
    assert not index.is_executing(120.0)
