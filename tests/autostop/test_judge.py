"""When a node is idle, when it ends, and why: situations and verdicts."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest

from jupyter_tpu.autostop import (
    NO_KEEP_RUNNING,
    Activity,
    KeepRunning,
    Moment,
    Rules,
    Source,
    earliest_end,
    judge,
    never_connected,
    reminder,
    unknown,
)
from jupyter_tpu.durations import duration_text, parse_duration
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
    keep: KeepRunning = NO_KEEP_RUNNING
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
        name="`while True` in a cell, with idle chips, on a node whose agent is too old to tell of output and pages",
        activity=Activity(execution=CELL, accelerator=ago(3), human=ago(3)),
        verdict="busy",
        reason="a cell of train.ipynb runs",
        ends_in_h=None,
    ),
    Situation(
        name="`while True` in a cell, with idle chips, silent and with nobody connected",
        activity=Activity(execution=CELL, accelerator=ago(3), human=ago(1.5), output=ago(1.6), connection=ago(1.9)),
        verdict="busy",
        reason="a cell of train.ipynb runs, but the chips are idle, there is no output, and no client has been "
        "connected for 1 h",
        ends_in_h=0.5,
        why="idle",
    ),
    Situation(
        name="the same for longer than it may",
        activity=Activity(execution=CELL, accelerator=ago(3), human=ago(3), output=ago(3), connection=ago(2.5)),
        verdict="idle",
        reason="no client has been connected for 2 h 30 min",
        ends_in_h=-0.5,
        why="idle",
    ),
    Situation(
        name="the same where idle nodes may stay for longer than silent cells",
        activity=Activity(execution=CELL, accelerator=ago(3), human=ago(3), output=ago(3), connection=ago(3)),
        rules=Rules(idle_after_s=4 * HOUR, action="delete"),
        verdict="busy",
        reason="a cell of train.ipynb runs, but",
        ends_in_h=1,
        why="idle",
    ),
    Situation(
        name="the same, and the user has said to keep the node while it runs",
        activity=Activity(execution=CELL, accelerator=ago(3), human=ago(3), output=ago(3), connection=ago(3)),
        keep=KeepRunning(while_busy=True),
        verdict="busy",
        reason="a cell of train.ipynb runs",
        ends_in_h=None,
    ),
    Situation(
        name="the same, and somebody has the notebook open",
        activity=Activity(
            execution=CELL, accelerator=ago(3), human=ago(3), output=ago(3), connection=active("1 page is open")
        ),
        verdict="busy",
        reason="a cell of train.ipynb runs; 1 page is open",
        ends_in_h=None,
    ),
    Situation(
        name="chip use cannot be measured, and CPU time stands in for it",
        activity=Activity(
            execution=CELL,
            accelerator=Source(detail="other workers are not seen"),
            human=ago(3),
            output=ago(3),
            connection=ago(3),
            cpu=active("the kernels' processes use CPU time"),
        ),
        verdict="busy",
        reason="the kernels' processes use CPU time",
        ends_in_h=None,
    ),
    Situation(
        name="chip use cannot be measured, and there is neither output nor CPU time",
        activity=Activity(
            execution=ago(3),
            accelerator=Source(detail="other workers are not seen"),
            human=ago(3),
            output=ago(3),
            connection=ago(3),
            cpu=ago(1),
        ),
        verdict="unknown",
        reason="no output, CPU time or connected client for 1 h; chip use can't be measured",
        ends_in_h=1,
        why="idle",
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
        name="a kernel uses the chips and computes nothing",
        activity=Activity(
            execution=ago(0.9), accelerator=ago(0.25, "process 7 has the chips open and does nothing"), human=ago(0.9)
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
        reason="their use is not shown",
        ends_in_h=None,
    ),
    Situation(
        name="the metrics cannot be read and the session ends",
        activity=Activity(execution=ago(5), accelerator=Source(detail="not shown"), human=ago(5)),
        rules=Rules(idle_after_s=HOUR, session_s=8 * HOUR),
        verdict="unknown",
        reason="not shown",
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
        reason="no activity",
        ends_in_h=None,
    ),
    Situation(
        name="stuck before READY with a deadline",
        activity=never_connected(),
        rules=Rules(idle_after_s=HOUR, deadline_at=NOW - 1),
        ready_since=None,
        verdict="idle",
        reason="no activity",
        ends_in_h=-1 / 3600,
        why="deadline",
    ),
    Situation(
        name="idle, and kept for another hour",
        activity=Activity(execution=ago(2), accelerator=QUIET, human=ago(2)),
        keep=KeepRunning(until=NOW + HOUR),
        verdict="idle",
        reason="for 2 h",
        ends_in_h=1,
        why="idle",
    ),
    Situation(
        name="kept for longer than the session: what was said counts",
        activity=Activity(execution=CELL, accelerator=QUIET, human=ago(1)),
        rules=Rules(session_s=6 * HOUR),
        keep=KeepRunning(until=NOW + 2 * HOUR),
        verdict="busy",
        reason="a cell of train.ipynb runs",
        ends_in_h=2,
        why="session",
    ),
    Situation(
        name="kept while this cell runs, and the session is over",
        activity=Activity(execution=CELL, accelerator=QUIET, human=ago(1)),
        rules=Rules(session_s=5 * HOUR),
        keep=KeepRunning(while_busy=True),
        verdict="busy",
        reason="a cell of train.ipynb runs",
        ends_in_h=None,
    ),
    Situation(
        name="that cell has ended",
        activity=Activity(execution=ago(0), accelerator=QUIET, human=ago(1)),
        rules=Rules(session_s=5 * HOUR),
        keep=KeepRunning(while_busy=True),
        verdict="idle",
        reason="for 0 s",
        ends_in_h=-1,
        why="session",
    ),
    Situation(
        name="no keep moves a deadline",
        activity=Activity(execution=CELL, accelerator=QUIET, human=QUIET),
        rules=Rules(idle_after_s=HOUR, deadline_at=NOW + HOUR),
        keep=KeepRunning(until=NOW + 9 * HOUR, while_busy=True),
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
    assert verdict.reason.count("treated as busy") == 0, "said beside the verdict"
    ends_in_h = None if verdict.ends_at is None else (verdict.ends_at - NOW) / HOUR
    assert ends_in_h == (None if situation.ends_in_h is None else pytest.approx(situation.ends_in_h))
    assert verdict.is_due == (ends_in_h is not None and ends_in_h <= 0)


LATELY, LONG_AGO = ago(0.1), ago(3)
AN_HOUR_AND_NEVER = Rules(idle_after_s=HOUR, unattended_after_s=None)


CHIPS_AND_CPU = ("active", "quiet", "unknown")
ANY_ACTIVITY = [*itertools.product([False, True], CHIPS_AND_CPU, CHIPS_AND_CPU, *[[LATELY, LONG_AGO]] * 2)]


@pytest.mark.parametrize("rules", [AN_HOUR, AN_HOUR_AND_NEVER], ids=["2 h unattended", "never unattended"])
@pytest.mark.parametrize("is_old_agent", [False, True], ids=["", "old agent"])
@pytest.mark.parametrize("is_connected", [False, True], ids=["nobody", "a page"])
def test_only_chip_use_output_or_a_human_keep_a_node_for_longer_than_it_may_be_idle(
    rules: Rules, is_old_agent: bool, is_connected: bool
) -> None:
    for is_running, chips, cpu, output, human in ANY_ACTIVITY:
        activity = Activity(
            execution=CELL if is_running else LONG_AGO,
            accelerator=Source(state=chips, last_at=LONG_AGO.last_at),
            human=human,
            output=None if is_old_agent else output,
            connection=None if is_old_agent else Source(state="active" if is_connected else "quiet"),
            cpu=Source(state=cpu) if chips == "unknown" and not is_old_agent else None,
        )
        is_used = chips == "active" or (chips == "unknown" and cpu == "active" and not is_old_agent)
        is_lately = human is LATELY or (output is LATELY and not is_old_agent)
        may_hide_work = is_running or chips == "unknown"
        is_cpu_known = chips != "unknown" or cpu != "unknown"
        can_lapse = is_cpu_known and not is_old_agent and not is_connected and rules is AN_HOUR

        verdict = judge(rules, activity, NO_KEEP_RUNNING, READY, NOW)

        if is_used or (may_hide_work and not can_lapse):
            assert (verdict.ends_at, verdict.is_due) == (None, False), activity
            assert verdict.verdict in ("busy", "unknown"), activity
        else:
            assert verdict.ends_why == "idle", activity
            assert verdict.is_due is not is_lately, activity
            limit_h = 2 if may_hide_work else 1
            since_h = 0.1 if is_lately else 3
            assert verdict.ends_at == pytest.approx(NOW + (limit_h - since_h) * HOUR), activity
            assert verdict.verdict == "idle" or is_lately, activity


@pytest.mark.parametrize(("silent_for_h", "is_warning"), [(1.8, False), (1.85, True)])
def test_the_end_of_a_silent_cell_is_announced(silent_for_h: float, is_warning: bool) -> None:
    silent = ago(silent_for_h)
    activity = Activity(execution=CELL, accelerator=silent, human=silent, output=silent, connection=silent)
    verdict = judge(AN_HOUR, activity, NO_KEEP_RUNNING, READY, NOW)
    assert (verdict.verdict, verdict.is_warning, verdict.is_due) == ("busy", is_warning, False)


@pytest.mark.parametrize(
    ("ready_for_h", "acted_h_ago", "days"),
    [(23, None, None), (25, None, 1), (49, None, 2), (49, 25, 1), (49, 1, None), (5, 30, None), (25, -24, 1)],
)
def test_a_node_that_is_billed_for_a_day_without_a_human_act_says_so_once_a_day(
    ready_for_h: float, acted_h_ago: float | None, days: int | None
) -> None:
    acts = [None if acted_h_ago is None else NOW - acted_h_ago * HOUR]
    found = reminder(NOW - ready_for_h * HOUR, acts, NOW)
    assert (found and found.days) == days
    assert reminder(None, acts, NOW) is None


def test_each_source_has_its_age() -> None:
    activity = Activity(execution=CELL, accelerator=ago(2), human=QUIET)
    verdict = judge(Rules(), activity, NO_KEEP_RUNNING, READY, NOW)
    assert verdict.ages_s == {"execution": 0.0, "accelerator": 2 * HOUR, "human": None}


@pytest.mark.parametrize(
    ("idle_for_h", "idle_after_s", "is_warning"), [(0.8, HOUR, False), (0.9, HOUR, True), (0, 60, False)]
)
def test_a_warning_comes_ten_minutes_before_the_end(idle_for_h: float, idle_after_s: float, is_warning: bool) -> None:
    activity = Activity(execution=ago(idle_for_h), accelerator=QUIET, human=QUIET)
    assert judge(Rules(idle_after_s=idle_after_s), activity, NO_KEEP_RUNNING, READY, NOW).is_warning is is_warning


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


def test_after_a_reboot_as_much_time_has_passed_as_the_machine_is_up_though_its_clock_was_set_back() -> None:
    before, after = Moment(wall=NOW, steady=9000, boot="a"), Moment(wall=NOW - HOUR, steady=70, boot="b")
    assert before.age_s(after) == 70


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
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90.0), ("30m", 1800.0), ("30min", 1800.0), ("1.5 h", 5400.0), (" 2d ", 172_800.0), ("0h", 0.0)],
)
def test_durations_are_read_as_people_type_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "6", "h", "soon", "-1h", "1h30m", "\u0661h", "1234567890s"])
def test_any_other_text_is_no_duration(text: str) -> None:
    assert parse_duration(text) is None
