"""When a node is idle, when it ends, and why: situations and verdicts."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from jupyter_tpu.brakes import (
    NO_KEEP,
    Activity,
    Keep,
    Moment,
    Rules,
    Source,
    earliest_end,
    judge,
    never_connected,
    span_text,
    unknown,
)
from jupyter_tpu.errors import BadInput

HOUR = 3600.0
NOW = 1_800_000_000.0
READY = NOW - 6 * HOUR
AN_HOUR = Rules(idle_after_s=HOUR)

QUIET = Source(state="quiet")


def ago(hours: float, detail: str = "") -> Source:
    return Source(state="quiet", last_at=NOW - hours * HOUR, detail=detail)


def active(detail: str) -> Source:
    return Source(state="active", last_at=NOW, detail=detail)


@dataclass(frozen=True, kw_only=True)
class Situation:
    name: str
    activity: Activity
    verdict: str
    reason: str
    ends_in_h: float | None
    why: str | None = None
    rules: Rules = AN_HOUR
    keep: Keep = NO_KEEP
    ready_since: float | None = READY


CELL = active("a cell of train.ipynb runs")

SITUATIONS = (
    Situation(
        name="a cell has run for 5 h and nobody has typed since",
        activity=Activity(execution=CELL, accelerator=active("process 7 computes"), human=ago(5)),
        verdict="busy",
        reason="a cell of train.ipynb runs",
        ends_in_h=None,
    ),
    Situation(
        name="the laptop was closed while the cell runs",
        activity=Activity(execution=CELL, accelerator=QUIET, human=ago(5.5)),
        verdict="busy",
        reason="a cell of train.ipynb runs",
        ends_in_h=None,
    ),
    Situation(
        name="`while True` in a cell, with idle chips",
        activity=Activity(execution=CELL, accelerator=ago(3), human=ago(3)),
        verdict="busy",
        reason="a cell of train.ipynb runs",
        ends_in_h=None,
    ),
    Situation(
        name="training in a detached process",
        activity=Activity(execution=ago(4), accelerator=active("process 99 (python train.py) computes"), human=ago(4)),
        verdict="busy",
        reason="process 99 (python train.py) computes",
        ends_in_h=None,
    ),
    Situation(
        name="a tab was left open: front ends poll, nobody types",
        activity=Activity(execution=ago(2), accelerator=ago(2), human=ago(2)),
        verdict="idle",
        reason="for 2 h",
        ends_in_h=-1,
        why="idle",
    ),
    Situation(
        name="the panel polls a node on which nothing has been done yet",
        activity=Activity(execution=QUIET, accelerator=QUIET, human=QUIET),
        verdict="idle",
        reason="for 6 h",
        ends_in_h=-5,
        why="idle",
    ),
    Situation(
        name="a terminal is open, with nothing in it that uses the chips",
        activity=Activity(execution=ago(0.5), accelerator=QUIET, human=ago(0.5)),
        verdict="idle",
        reason="for 30 min",
        ends_in_h=0.5,
        why="idle",
    ),
    Situation(
        name="a kernel holds the chips and computes nothing",
        activity=Activity(
            execution=ago(0.9), accelerator=ago(0.25, "process 7 holds the chips and does nothing"), human=ago(0.9)
        ),
        verdict="idle",
        reason="for 15 min",
        ends_in_h=0.75,
        why="idle",
    ),
    Situation(
        name="the metrics cannot be read",
        activity=Activity(
            execution=ago(5), accelerator=Source(detail="the chips are held, their use is not shown"), human=ago(5)
        ),
        verdict="unknown",
        reason="their use is not shown. That counts as busy",
        ends_in_h=None,
    ),
    Situation(
        name="the metrics cannot be read and the session ends",
        activity=Activity(execution=ago(5), accelerator=Source(detail="not shown"), human=ago(5)),
        rules=Rules(idle_after_s=HOUR, session_s=8 * HOUR),
        verdict="unknown",
        reason="only a session's length or a deadline ends it",
        ends_in_h=2,
        why="session",
    ),
    Situation(
        name="no link to the agent, nothing else laid down",
        activity=unknown("the node cannot be asked now"),
        verdict="unknown",
        reason="the node cannot be asked now",
        ends_in_h=None,
    ),
    Situation(
        name="no link to the agent, and a deadline",
        activity=unknown("the node cannot be asked now"),
        rules=Rules(idle_after_s=HOUR, deadline_at=NOW + 60),
        verdict="unknown",
        reason="the node cannot be asked now",
        ends_in_h=1 / 60,
        why="deadline",
    ),
    Situation(
        name="nobody has ever connected",
        activity=never_connected(),
        verdict="idle",
        reason="for 6 h",
        ends_in_h=-5,
        why="idle",
    ),
    Situation(
        name="stuck before READY: not billed, not idle",
        activity=never_connected(),
        ready_since=None,
        verdict="idle",
        reason="nothing has executed",
        ends_in_h=None,
    ),
    Situation(
        name="stuck before READY with a deadline",
        activity=never_connected(),
        rules=Rules(idle_after_s=HOUR, deadline_at=NOW - 1),
        ready_since=None,
        verdict="idle",
        reason="nothing has executed",
        ends_in_h=-1 / 3600,
        why="deadline",
    ),
    Situation(
        name="idle, and kept for another hour",
        activity=Activity(execution=ago(2), accelerator=QUIET, human=ago(2)),
        keep=Keep(until=NOW + HOUR),
        verdict="idle",
        reason="for 2 h",
        ends_in_h=1,
        why="idle",
    ),
    Situation(
        name="kept for longer than the session: what was said counts",
        activity=Activity(execution=CELL, accelerator=QUIET, human=ago(1)),
        rules=Rules(session_s=6 * HOUR),
        keep=Keep(until=NOW + 2 * HOUR),
        verdict="busy",
        reason="a cell of train.ipynb runs",
        ends_in_h=2,
        why="session",
    ),
    Situation(
        name="kept while this cell runs, and the session is over",
        activity=Activity(execution=CELL, accelerator=QUIET, human=ago(1)),
        rules=Rules(session_s=5 * HOUR),
        keep=Keep(while_busy=True),
        verdict="busy",
        reason="a cell of train.ipynb runs",
        ends_in_h=None,
    ),
    Situation(
        name="that cell has ended",
        activity=Activity(execution=ago(0), accelerator=QUIET, human=ago(1)),
        rules=Rules(session_s=5 * HOUR),
        keep=Keep(while_busy=True),
        verdict="idle",
        reason="for 0 s",
        ends_in_h=-1,
        why="session",
    ),
    Situation(
        name="no keep moves a deadline",
        activity=Activity(execution=CELL, accelerator=QUIET, human=QUIET),
        rules=Rules(idle_after_s=HOUR, deadline_at=NOW + HOUR),
        keep=Keep(until=NOW + 9 * HOUR, while_busy=True),
        verdict="busy",
        reason="a cell of train.ipynb runs",
        ends_in_h=1,
        why="deadline",
    ),
    Situation(
        name="a busy cell past its session",
        activity=Activity(execution=CELL, accelerator=QUIET, human=QUIET),
        rules=Rules(idle_after_s=HOUR, session_s=5 * HOUR),
        verdict="busy",
        reason="a cell of train.ipynb runs",
        ends_in_h=-1,
        why="session",
    ),
    Situation(
        name="idle for long, and the idle rule is off",
        activity=Activity(execution=ago(5), accelerator=QUIET, human=ago(5)),
        rules=Rules(),
        verdict="idle",
        reason="for 5 h",
        ends_in_h=None,
    ),
    Situation(
        name="somebody has just answered input()",
        activity=Activity(execution=ago(3), accelerator=QUIET, human=ago(0)),
        verdict="idle",
        reason="for 0 s",
        ends_in_h=1,
        why="idle",
    ),
)


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.name)
def test_a_situation_has_its_verdict_with_the_reason(situation: Situation) -> None:
    verdict = judge(situation.rules, situation.activity, situation.keep, situation.ready_since, NOW)
    assert (verdict.verdict, verdict.ends_why) == (situation.verdict, situation.why)
    assert situation.reason in verdict.reason
    ends_in_h = None if verdict.ends_at is None else (verdict.ends_at - NOW) / HOUR
    assert ends_in_h == (None if situation.ends_in_h is None else pytest.approx(situation.ends_in_h))
    assert verdict.is_due == (ends_in_h is not None and ends_in_h <= 0)


def test_each_source_has_its_age() -> None:
    activity = Activity(execution=CELL, accelerator=ago(2), human=QUIET)
    verdict = judge(Rules(), activity, NO_KEEP, READY, NOW)
    assert verdict.ages_s == {"execution": 0.0, "accelerator": 2 * HOUR, "human": None}


@pytest.mark.parametrize(
    ("idle_for_h", "idle_after_s", "is_warning"), [(0.8, HOUR, False), (0.9, HOUR, True), (0, 60, False)]
)
def test_a_warning_comes_ten_minutes_before_the_end(idle_for_h: float, idle_after_s: float, is_warning: bool) -> None:
    activity = Activity(execution=ago(idle_for_h), accelerator=QUIET, human=QUIET)
    assert judge(Rules(idle_after_s=idle_after_s), activity, NO_KEEP, READY, NOW).is_warning is is_warning


@pytest.mark.parametrize("jump_s", [-86400.0, 0.0, 86400.0])
def test_a_clock_that_jumps_moves_no_end_outwards(jump_s: float) -> None:
    seen = Moment(wall=NOW, steady=100, boot="a")
    later = Moment(wall=NOW + 60 + jump_s, steady=160, boot="a")
    end_at = earliest_end(NOW + HOUR, seen, later)
    assert end_at - later.wall <= HOUR - 60
    assert seen.age_s(later) == 60


def test_after_a_reboot_the_wall_clock_has_to_do() -> None:
    before, after = Moment(wall=NOW, steady=9000, boot="a"), Moment(wall=NOW + 60, steady=5, boot="b")
    assert before.age_s(after) == 60
    assert earliest_end(NOW + HOUR, before, after) == NOW + HOUR


@pytest.mark.parametrize(
    "rules",
    [
        {"idle_after_s": 0},
        {"idle_after_s": -5},
        {"session_s": float("nan")},
        {"session_s": float("inf")},
        {"idle_after_s": "1h"},
        {"idle_after_s": True},
        {"deadline_at": "tomorrow"},
        {"action": "explode"},
        {"colour": "red"},
    ],
    ids=str,
)
def test_rules_that_make_no_sense_are_refused(rules: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        Rules.from_json(rules)


def test_rules_come_back_from_json_as_they_were() -> None:
    rules = Rules(idle_after_s=60, session_s=12 * HOUR, deadline_at=NOW, action="delete")
    assert Rules.from_json(rules.to_json()) == rules


@pytest.mark.parametrize(("seconds", "text"), [(5, "5 s"), (130, "2 min"), (7200, "2 h"), (7260, "2 h 1 min")])
def test_spans_are_told_as_people_tell_them(seconds: float, text: str) -> None:
    assert span_text(seconds) == text
