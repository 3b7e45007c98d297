"""The cloud's clock, set from the dates of its responses, so that costs don't depend on this computer's clock.

A local clock that was set back would hide spending until it has caught up; a clock that was set ahead would charge for
time that hasn't passed. After the first response, time is measured by this computer's monotonic clock, which can't be
set.

The demo's cloud has virtual time, which may run faster, pause or jump, and bills by it. Its responses contain this
time, and the clock here follows it: costs, budgets and grants use virtual time. Auto-stop uses the real time in which
people and chips are idle.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from jupyter_tpu.autostop import Moment
from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import Text

WRONG_S = 30.0
"""A clock that differs by less than this many seconds counts as correct.

A response may take this long, and its date has only whole seconds. Small differences cause no warnings, and all
processes of the user then use the local clock.
"""

_Bounds = tuple[float, float]
"""The least and greatest possible seconds by which the cloud's clock is ahead of the monotonic clock."""

# On Linux, the monotonic clock stops while the machine sleeps, but CLOCK_BOOTTIME continues.
_STEADY: int = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", -1))


def _this_computer() -> tuple[float, float]:
    return time.time(), time.clock_gettime(_STEADY) if _STEADY >= 0 else time.monotonic()


@dataclass(frozen=True, slots=True)
class _VirtualTime:
    """Virtual Unix seconds at one reading of the monotonic clock, and their rate per real second."""

    steady: float
    now: float
    rate: float

    @property
    def usual_rate(self) -> float:
        """The rate of virtual time, used to date past events; 1 (real time) while virtual time is paused."""
        return self.rate or 1.0

    def at(self, steady: float) -> float:
        """Return the virtual time when the monotonic clock shows `steady`."""
        return self.now + (steady - self.steady) * self.rate


class CloudClock:
    """The clock of one cloud. Until the cloud's first response, it shows this computer's time.

    Args:
        read: returns Unix seconds on this computer's clock, and monotonic seconds that also count while the computer
            sleeps.
    """

    def __init__(self, read: Callable[[], tuple[float, float]] = _this_computer) -> None:
        self._read = read
        self._least_and_most: _Bounds | None = None
        self._doubted: _Bounds | None = None
        self._virtual: _VirtualTime | None = None

    def follow(self, text: str, *, asked: float, answered: float) -> bool:
        """Start to follow the virtual time in an emulated cloud's response; return whether the text is valid.

        Args:
            text: virtual Unix seconds, and their rate per real second.
            asked, answered: readings of `steady`, taken before and after the cloud wrote the response.
        """
        try:
            now, rate = map(float, text.split())
        except ValueError:
            return False
        if not (math.isfinite(now) and math.isfinite(rate) and rate >= 0):
            return False
        self._virtual = _VirtualTime((asked + answered) / 2, now, rate)
        return True

    def learn(self, date: str, *, asked: float, answered: float) -> bool:
        """Update the clock from a response's HTTP date, and return whether the date was accepted.

        The cloud wrote the date between the two readings of `steady`, truncated to whole seconds. This gives bounds on
        the offset between the cloud's clock and the monotonic clock, and further responses narrow the bounds. A date
        far outside the bounds, or at first far from this computer's clock, is accepted only once the next response
        agrees, because a single wrong response must not affect costs.
        """
        try:
            written = parsedate_to_datetime(date).timestamp()
        except (ValueError, OverflowError):  # the date is invalid, and another request would not help
            return True
        bounds = written - answered, written + 1.0 - asked
        # The response agrees with the known bounds: narrow them.
        if _gap_s(bounds, self._least_and_most or self._local_bounds()) <= WRONG_S:
            self._least_and_most, self._doubted = _both(bounds, self._least_and_most), None
        # The response disagrees, but confirms the previous doubted response: replace the bounds.
        elif self._doubted is not None and _gap_s(bounds, self._doubted) <= WRONG_S:
            self._least_and_most, self._doubted = _both(bounds, self._doubted), None
        else:
            self._doubted = bounds
        return self._doubted is None

    def _local_bounds(self) -> _Bounds:
        wall, steady = self._read()
        return wall - steady, wall - steady

    def steady(self) -> float:
        """Return the time of a monotonic clock in seconds, for `learn` and `moment`."""
        return self._read()[1]

    def now(self) -> float:
        """Return the cloud's time in Unix seconds."""
        wall, steady = self._read()
        return wall - self._ahead_s(wall, steady)

    def moment(self, steady: float) -> Moment:
        """Return the cloud's time at the monotonic time `steady`. Call this only after a response from the cloud."""
        if self._virtual is not None:
            return Moment(wall=self._virtual.at(steady), steady=steady)
        wall, now = self._read()
        return Moment(wall=wall - self._ahead_s(wall, now) - (now - steady), steady=steady)

    @property
    def ahead_s(self) -> float:
        """Seconds by which this computer's clock is ahead of the cloud's, or 0 if it is correct or unknown."""
        return self._ahead_s(*self._read())

    @property
    def wrong_s(self) -> float:
        """Like `ahead_s`, but always 0 for an emulated cloud with virtual time."""
        return self.ahead_s if self._virtual is None else 0.0

    @property
    def rate(self) -> float:
        """Seconds of the cloud's time per real second: 1, except in an emulated cloud; 0 while its time is paused."""
        return 1.0 if self._virtual is None else self._virtual.rate

    def _ahead_s(self, wall: float, steady: float) -> float:
        if self._virtual is not None:
            return wall - self._virtual.at(steady)
        if self._least_and_most is None:
            return 0.0
        least, most = (wall - steady - bound for bound in reversed(self._least_and_most))
        # The clock is wrong only if even the nearer bound is. An estimate within the bounds would change with every
        # response.
        return (least + most) / 2 if least > WRONG_S or most < -WRONG_S else 0.0

    def to_cloud(self, at: float) -> float:
        """Convert Unix seconds on this computer's clock to the cloud's."""
        if self._virtual is None:
            return at - self.ahead_s
        wall, steady = self._read()
        return self._virtual.at(steady) + (at - wall) * self._virtual.usual_rate

    def to_local(self, at: float) -> float:
        """Convert a time on the cloud's clock to this computer's clock (Unix seconds); ignore jumps of virtual time."""
        return at + self.ahead_at(at)

    def to_real(self, at: float) -> float:
        """Convert the cloud's time to real time, which differs only in an emulated cloud."""
        return at if self._virtual is None else self.to_local(at)

    def real_s(self, seconds: float) -> float:
        """Convert a duration in the cloud to real seconds. Virtual time may run faster than real time."""
        return seconds if self._virtual is None else seconds / max(1.0, self._virtual.rate)

    def ahead_at(self, at: float) -> float:
        """Return the seconds by which this computer's clock was ahead when the cloud's clock showed `at`."""
        if self._virtual is None:
            return self.ahead_s
        wall, steady = self._read()
        return wall + (at - self._virtual.at(steady)) / self._virtual.usual_rate - at

    @property
    def notice(self) -> str:
        """A warning for the user that this computer's clock is wrong, or an empty text if it is correct."""
        return wrong_clock_text(self.wrong_s)


def _gap_s(one: _Bounds, other: _Bounds) -> float:
    """Return the seconds between two ranges, or 0 if they overlap."""
    return max(one[0] - other[1], other[0] - one[1], 0.0)


def _both(new: _Bounds, known: _Bounds | None) -> _Bounds:
    """Return the overlap of two ranges. If they don't overlap, because a clock drifted, return `new`."""
    if known is None or _gap_s(new, known) > 0:
        return new
    return max(new[0], known[0]), min(new[1], known[1])


def wrong_clock_text(ahead_s: float) -> str:
    """Return ``This computer's clock is 1 h ahead. …``, or an empty text if it is correct."""
    if not ahead_s:
        return ""
    # Round the offset, so that the text doesn't change and is shown only once.
    unit = 60 if abs(ahead_s) >= 120 else 10
    text = (
        Text("This computer's clock is {duration} ahead. Correct it. Costs follow the cloud's clock.")
        if ahead_s > 0
        else Text("This computer's clock is {duration} behind. Correct it. Costs follow the cloud's clock.")
    )
    return text.with_arguments(duration=duration_text(round(abs(ahead_s) / unit) * unit))
