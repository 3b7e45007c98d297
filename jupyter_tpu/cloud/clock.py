"""The cloud's time, learned from the date of each of its answers: costs must not depend on this computer's clock.

A clock that was set back would hide what is spent until it has caught up, and one that was set ahead would charge time
that has not passed. Once an answer has come, the time runs on by a clock of this computer that nobody can set.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

from jupyter_tpu.brakes import Moment, span_text

WRONG_S = 30.0
"""A clock that differs by less is called right: an answer may take that long, and has whole seconds only. Then all of
the user's processes count by the clock that their screens show, and nobody is bothered about a few seconds."""

_Bounds = tuple[float, float]
"""The least and the most that the cloud's clock is ahead of the steady one."""

# Linux's monotonic clock stops while the machine sleeps; this one goes on
_STEADY: int = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", -1))


def _this_computer() -> tuple[float, float]:
    return time.time(), time.clock_gettime(_STEADY) if _STEADY >= 0 else time.monotonic()


class CloudClock:
    """The clock of one cloud as far as it is known; until its first answer, this computer's.

    Args:
        read: gives Unix seconds by this computer's clock, and seconds that only grow, also while it sleeps.
    """

    def __init__(self, read: Callable[[], tuple[float, float]] = _this_computer) -> None:
        self._read = read
        self._least_and_most: _Bounds | None = None
        self._doubted: _Bounds | None = None

    def learn(self, date: str, *, asked: float, answered: float) -> bool:
        """Take in an HTTP date that came between these two readings of `steady`; whether it is believed.

        The cloud wrote it then, and cut it to whole seconds: this bounds how far its clock is ahead of the steady one.
        All answers together bound it closer. One that is far from what is known, which is this computer's clock at
        first, is believed once the next one says the same: money must not follow a single wrong answer.
        """
        try:
            written = parsedate_to_datetime(date).timestamp()
        except (ValueError, OverflowError):  # no date that can be read: nothing is learned
            return True
        told = written - answered, written + 1.0 - asked
        if _gap_s(told, self._least_and_most or self._of_here()) <= WRONG_S:
            self._least_and_most, self._doubted = _both(told, self._least_and_most), None
        elif self._doubted is not None and _gap_s(told, self._doubted) <= WRONG_S:
            self._least_and_most, self._doubted = _both(told, self._doubted), None
        else:
            self._doubted = told
        return self._doubted is None

    def _of_here(self) -> _Bounds:
        wall, steady = self._read()
        return wall - steady, wall - steady

    def steady(self) -> float:
        """A reading for `moment`: seconds from a beginning of their own, which nobody can set."""
        return self._read()[1]

    def now(self) -> float:
        """Unix seconds."""
        wall, steady = self._read()
        return wall - self._ahead_s(wall, steady)

    def moment(self, steady: float) -> Moment:
        """When that was read from `steady`; best asked for after an answer, which may be the first."""
        wall, now = self._read()
        return Moment(wall=wall - self._ahead_s(wall, now) - (now - steady), steady=steady)

    @property
    def ahead_s(self) -> float:
        """How far this computer's clock is ahead of the cloud's; 0 where it is right, or where nobody knows."""
        return self._ahead_s(*self._read())

    def _ahead_s(self, wall: float, steady: float) -> float:
        if self._least_and_most is None:
            return 0.0
        least, most = (wall - steady - bound for bound in reversed(self._least_and_most))
        return (least + most) / 2 if least > WRONG_S or most < -WRONG_S else 0.0

    def of_cloud(self, at: float) -> float:
        """A moment by this computer's clock, by the cloud's."""
        return at - self.ahead_s

    def of_here(self, at: float) -> float:
        """A moment by the cloud's clock, by this computer's."""
        return at + self.ahead_s

    @property
    def notice(self) -> str:
        """What the user should know of this computer's clock; empty where it is right."""
        return wrong_clock_text(self.ahead_s)


def _gap_s(one: _Bounds, other: _Bounds) -> float:
    """How far they lie apart; 0 where they overlap."""
    return max(one[0] - other[1], other[0] - one[1], 0.0)


def _both(told: _Bounds, known: _Bounds | None) -> _Bounds:
    """What fits both; the newer one alone where they do not overlap, as clocks drift."""
    if known is None or _gap_s(told, known) > 0:
        return told
    return max(told[0], known[0]), min(told[1], known[1])


def wrong_clock_text(ahead_s: float) -> str:
    """``This computer's clock is wrong by 1 h (ahead). …``; rounded, so that it stays the same while it is wrong."""
    if not ahead_s:
        return ""
    unit = 60 if abs(ahead_s) >= 120 else 10
    wrong, way = span_text(round(abs(ahead_s) / unit) * unit), "ahead" if ahead_s > 0 else "behind"
    return f"This computer's clock is wrong by {wrong} ({way}). Set it; costs are counted by the cloud's clock."
