"""``%tpu extend`` and ``%tpu idle``: what is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from jupyter_tpu.errors import WorkerUnreachable
from jupyter_tpu.notebook.magics.extend import report_lines
from jupyter_tpu.notebook.node.agent_call import call_agent


def test_a_kernel_without_an_agent_says_so() -> None:
    with pytest.raises(WorkerUnreachable, match="not started by an agent"):
        call_agent("activity", {}, {})
    with pytest.raises(WorkerUnreachable, match="is not responding"):
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
        "running cells: quiet, last activity 2 min ago",
        "Idle timeout: 1 h; maximum session length: no limit.",
        "Auto-stop in 15 min (idle).",
        "The node keeps running for 2 h.",
        "The node keeps running until the current cell ends.",
        "Guard: can't stop the node (no scope).",
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
    ("idle_s", "start"),
    [
        (3600, "Idle timeout: 1 h, or 2 h while an unattended cell runs; "),
        (4 * 3600, "Idle timeout: 4 h; "),  # the longer limit applies
    ],
)
def test_the_limit_of_an_unattended_cell_is_shown_if_it_is_longer(idle_s: float, start: str) -> None:
    rules = {**REPORT["rules"], "idle_after_s": idle_s, "unattended_after_s": 7200}
    assert report_lines({**REPORT, "rules": rules})[0].startswith(start)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "In use: auto-stop 1 h after it becomes idle."),
        ({"verdict": "unknown"}, "Activity unknown (treated as busy): auto-stop 1 h after it becomes idle."),
        (
            {"ends_in_s": 3540, "ends_why": "idle", "keep": {"for_s": 3540, "while_busy": False}},
            "The node keeps running for 59 min, then auto-stop stops it (idle).",
        ),
    ],
)
def test_one_line_says_when_the_node_ends(changes: Mapping[str, Any], line: str) -> None:
    assert report_lines({**REPORT, **changes})[1:-1] == [line]
