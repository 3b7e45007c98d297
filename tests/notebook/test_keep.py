"""``%tpu extend`` and ``%tpu idle``: what a line means, and what is shown."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import pytest

from jupyter_tpu.errors import BadInput, WorkerUnreachable
from jupyter_tpu.notebook.magics.extend import parse_extend, report_lines
from jupyter_tpu.notebook.node.agent_call import call_agent

NOON = datetime.datetime(2026, 6, 1, 12).timestamp()


@pytest.mark.parametrize(
    ("line", "params"),
    [
        ("", {"for_s": 3600}),
        ("90m", {"for_s": 5400}),
        ("until 18:00", {"until": NOON + 6 * 3600}),
        ("until 11:00", {"until": NOON + 23 * 3600}),
        ("while-busy", {"while_busy": True}),
        ("off", {}),
    ],
)
def test_a_line_says_what_the_agent_is_asked(line: str, params: Any) -> None:
    assert parse_extend(line.split(), NOON) == params


@pytest.mark.parametrize(
    "line",
    [
        "forever",
        "until noon",
        "-1h",
        "until",
        "1h 2h",
        "9999999h",
        "while_busy",
        "off now",
        "\u0661h",
        "until 1\u0668:00",
    ],
)
def test_any_other_line_is_refused_with_what_there_is(line: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_extend(line.split(), NOON)
    assert "%tpu extend 1h" in caught.value.hint


def test_a_kernel_without_an_agent_says_so() -> None:
    with pytest.raises(WorkerUnreachable, match="not started by an agent"):
        call_agent("activity", {}, {})
    with pytest.raises(WorkerUnreachable, match="does not answer"):
        call_agent("activity", {}, {"JUPYTER_TPU_AGENT_SOCKET": "/nowhere/agent.sock"})


def test_what_the_guard_says_is_told_in_lines() -> None:
    said = {
        "sources": {"execution": {"state": "quiet", "age_s": 150, "detail": ""}},
        "rules": {"idle_after_s": 3600, "session_s": None, "action": "stop"},
        "ends_in_s": 900,
        "ends_why": "idle",
        "keep": {"for_s": 7200, "while_busy": True},
        "guard": {"state": "cannot", "detail": "no scope"},
    }
    assert report_lines(said) == [
        "execution: quiet, last 2 min ago",
        "Idle timeout: 1 h; maximum session length: no limit.",
        "Auto-stop in 15 min (idle).",
        "Kept running for 2 h.",
        "Kept running until the current cell ends.",
        "Guard: cannot (no scope).",
    ]


REPORT: dict[str, Any] = {
    "sources": {},
    "verdict": "busy",
    "rules": {"idle_after_s": 3600, "session_s": None, "action": "stop"},
    "ends_in_s": None,
    "ends_why": "",
    "keep": {"for_s": None, "while_busy": False},
    "guard": {"state": "armed", "detail": "ready"},
}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "In use: auto-stop 1 h after it becomes idle."),
        ({"verdict": "unknown"}, "Activity unknown (treated as busy): auto-stop 1 h after it becomes idle."),
        (
            {"ends_in_s": 3540, "ends_why": "idle", "keep": {"for_s": 3540, "while_busy": False}},
            "Kept running for 59 min, then auto-stop (idle).",
        ),
    ],
)
def test_one_line_says_when_the_node_ends(changes: Mapping[str, Any], line: str) -> None:
    assert report_lines({**REPORT, **changes})[1:-1] == [line]
