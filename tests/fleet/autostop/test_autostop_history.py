"""What is read of an agent's word on the last hour."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_tpu.fleet.autostop.history_view import OLDER, activity_history_view

STRETCH = {"verdict": "idle", "sources": [], "detail": "", "began_s": 60.0, "ended_s": 0, "quiet_s": 90.0}


def test_lengths_of_time_become_moments() -> None:
    view = activity_history_view({"past": [STRETCH, {**STRETCH, "quiet_s": None}]}, idle_after_s=3600.0, now=1000.0)
    first, second = view["stretches"]
    assert (first["starts_at"], first["ends_at"], first["quiet_since"]) == (940.0, 1000.0, 910.0)
    assert second["quiet_since"] is None
    assert (view["now"], view["idle_after_s"], view["why_unknown"]) == (1000.0, 3600.0, None)


def test_an_agent_that_was_never_taught_the_question_is_called_older() -> None:
    assert activity_history_view({"sources": {}}, idle_after_s=None, now=0.0)["why_unknown"] == OLDER


def test_why_nothing_is_known_is_said() -> None:
    view = activity_history_view("the node cannot be asked now", idle_after_s=None, now=0.0)
    assert (view["why_unknown"], view["stretches"]) == ("the node cannot be asked now", [])


@pytest.mark.parametrize(
    "past",
    [
        None,
        7,
        [None],
        ["busy"],
        [{}],
        [{**STRETCH, "verdict": "<b>"}],
        [{**STRETCH, "verdict": ["idle"]}],
        [{**STRETCH, "began_s": float("nan")}],
        [{**STRETCH, "began_s": float("inf")}],
        [{**STRETCH, "began_s": -1}],
        [{**STRETCH, "ended_s": True}],
        [{**STRETCH, "ended_s": "0"}],
        [{**STRETCH, "sources": None}],
    ],
)
def test_nonsense_is_called_so_and_hurts_nothing(past: Any) -> None:
    view = activity_history_view({"past": past}, idle_after_s=None, now=0.0)
    assert (view["why_unknown"], view["stretches"]) == ("the agent on the node sent an invalid response", [])
