"""What the guard remembers of the last hour."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_tpu.agent.autostop.activity_history import KEPT_S, ActivityHistory
from jupyter_tpu.autostop import NO_KEEP_RUNNING, Activity, Rules, Source, judge

RULES = Rules(idle_after_s=3600.0, session_s=None, deadline_at=None, action="stop")


def activity(now: float, state: str = "quiet", last_at: float | None = None, detail: str = "") -> Activity:
    """Of the three sources the first is so; the others are quiet."""
    at = now if state == "active" else last_at
    return Activity(
        execution=Source(state=state, last_at=at, detail=detail),
        accelerator=Source(state="quiet"),
        human=Source(state="quiet"),
    )


def see(past: ActivityHistory, now: float, seen: Activity) -> None:
    past.add(seen, judge(RULES, seen, NO_KEEP_RUNNING, 0.0, now), now)


def told(past: ActivityHistory, now: float) -> list[tuple[Any, ...]]:
    return [(each["verdict"], each["began_s"], each["ended_s"]) for each in past.describe(now)]


def test_what_goes_on_as_before_is_one_stretch_and_a_change_begins_the_next() -> None:
    past = ActivityHistory()
    for now in (1000.0, 1010.0, 1020.0):
        see(past, now, activity(now, "active", detail=f"a cell runs, {now}"))
    for now in (1030.0, 1040.0):
        see(past, now, activity(now, last_at=1020.0))
    assert told(past, 1040.0) == [("busy", 40.0, 20.0), ("idle", 20.0, 0.0)]
    busy, idle = past.describe(1040.0)
    assert (busy["sources"], busy["detail"]) == (["execution"], "a cell runs, 1020.0")
    assert (idle["sources"], idle["quiet_s"]) == ([], 20.0)


def test_time_in_which_nobody_looked_belongs_to_no_stretch() -> None:
    past = ActivityHistory()
    see(past, 1000.0, activity(1000.0, last_at=990.0))
    see(past, 1100.0, activity(1100.0, last_at=990.0))
    assert told(past, 1100.0) == [("idle", 100.0, 100.0), ("idle", 0.0, 0.0)]


def test_an_act_of_a_person_begins_the_idle_time_anew() -> None:
    past = ActivityHistory()
    see(past, 1000.0, activity(1000.0, last_at=900.0))
    see(past, 1010.0, activity(1010.0, last_at=1005.0))
    assert [each["quiet_s"] for each in past.describe(1010.0)] == [110.0, 5.0]


def test_what_nobody_can_tell_says_why() -> None:
    past = ActivityHistory()
    see(past, 1000.0, activity(1000.0, "unknown", detail="no metrics"))
    (only,) = past.describe(1000.0)
    assert (only["verdict"], only["sources"], only["detail"]) == ("unknown", ["execution"], "no metrics")


def test_what_is_older_than_an_hour_is_forgotten() -> None:
    past = ActivityHistory()
    see(past, 1000.0, activity(1000.0, "active"))
    see(past, 1000.0 + KEPT_S + 1, activity(1000.0 + KEPT_S + 1))
    assert len(past.describe(1000.0 + KEPT_S + 1)) == 1


LOOKS = st.lists(st.tuples(st.floats(0.1, 60.0), st.sampled_from(["active", "quiet", "unknown"])), max_size=2000)


@settings(deadline=None, max_examples=50)
@given(LOOKS)
def test_stretches_follow_each_other_and_take_little_room(looks: list[tuple[float, str]]) -> None:
    past, now = ActivityHistory(), 1000.0
    for later_s, state in looks:
        now += later_s
        see(past, now, activity(now, state, last_at=900.0))
    described = past.describe(now)
    moments = [moment for each in described for moment in (each["began_s"], each["ended_s"])]
    assert moments == sorted(moments, reverse=True)
    assert len(described) <= 240
    assert all(0 <= each["ended_s"] <= each["began_s"] <= KEPT_S for each in described)
