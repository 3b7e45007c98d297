"""When a node ends by the guard's clocks."""

from __future__ import annotations

import pytest

from jupyter_tpu.agent.autostop.policy import AutostopPolicy
from jupyter_tpu.autostop import KeepRunning, Moment, Rules

HOUR = 3600.0
DAY = 24 * HOUR
SET = Moment(wall=1_800_000_000.0, steady=9000.0, boot="a")
POLICY = AutostopPolicy(
    rules=Rules(deadline_at=SET.wall + HOUR), given_at=SET, keep=KeepRunning(until=SET.wall + HOUR), kept_at=SET
)


@pytest.mark.parametrize("jump_s", [-DAY, 0.0, DAY])
def test_a_clock_that_jumps_moves_no_end(jump_s: float) -> None:
    now = Moment(wall=SET.wall + 60 + jump_s, steady=SET.steady + 60, boot="a")
    ends = (POLICY.rules_now(now).deadline_at, POLICY.keep_now(now).until)
    assert ends == pytest.approx((now.wall + HOUR - 60,) * 2)


@pytest.mark.parametrize(
    ("wall_s", "up_s", "left_s"),
    [
        (0.5 * HOUR, 60.0, 0.5 * HOUR),
        (DAY, 60.0, 540.0),  # a clock that may not have been set yet ends no node
        (DAY, 700.0, -100.0),
        (-DAY, 700.0, HOUR - 700.0),  # it was not off for less than no time
    ],
)
def test_after_a_reboot_a_deadline_goes_by_the_wall_clock_once_it_has_been_set(
    wall_s: float, up_s: float, left_s: float
) -> None:
    now = Moment(wall=SET.wall + wall_s, steady=up_s, boot="b")
    deadline_at = POLICY.rules_now(now).deadline_at
    assert deadline_at is not None
    assert deadline_at - now.wall == pytest.approx(left_s)
