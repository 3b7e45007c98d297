"""The guard's activity history: periods in the last hour when the node was busy, idle or in an unknown state.

An observation that continues the last period costs one comparison and no extra memory.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from jupyter_tpu.autostop import Activity, Verdict

KEPT_S = 3600.0
"""How long periods are kept, in seconds: the hour that the panel shows."""

# Number of periods to keep, enough for four changes per minute during one hour. Beyond this number, the oldest periods
# are dropped.
_MOST = 240
# The guard takes a sample at least every 10 s. After a longer gap, the activity in between is unknown.
_MAX_GAP_S = 25.0
# The start of an idle period is computed at each observation and varies a little. Starts that differ by at most this
# much count as the same.
_SAME_S = 3.0
# Maximum length of a detail in characters. Bounds memory and the size of the response.
_LONGEST_DETAIL = 200


@dataclass(frozen=True)
class ActivityPeriod:
    """A period in which the verdict didn't change. Times are seconds on the boot clock, which can't be set.

    Attributes:
        verdict: see `Verdict`.
        sources: names of the sources that were active or, if the verdict is ``unknown``, unreadable.
        detail: details of these sources at the last observation, for display.
        quiet_since: time of the last activity; None if unknown.
        began_at: time of the first observation, or the end of the previous period.
        ended_at: time of the last observation.
    """

    verdict: str
    sources: tuple[str, ...]
    detail: str
    quiet_since: float | None
    began_at: float
    ended_at: float

    def continues_in(self, other: ActivityPeriod) -> bool:
        """Whether this period can be merged with the next one: both have the same verdict and sources."""
        if (self.verdict, self.sources) != (other.verdict, other.sources):
            return False
        if self.quiet_since is None or other.quiet_since is None or self.verdict != "idle":
            return True
        return abs(self.quiet_since - other.quiet_since) <= _SAME_S


class ActivityHistory:
    """The node's activity in the last `KEPT_S` seconds, or since the agent started if that is later."""

    def __init__(self) -> None:
        self._periods: deque[ActivityPeriod] = deque(maxlen=_MOST)

    def add(self, activity: Activity, verdict: Verdict, now: float) -> None:
        """Add an observation made at `now`."""
        seen, last = _seen(activity, verdict, now), self._periods[-1] if self._periods else None
        if last is None or now - last.ended_at > _MAX_GAP_S:
            self._periods.append(seen)
        elif last.continues_in(seen):
            self._periods[-1] = replace(last, ended_at=now, detail=seen.detail)
        else:  # If there is no gap, the new period begins at the earlier observation.
            self._periods.append(replace(seen, began_at=last.ended_at))

    def describe(self, now: float) -> list[dict[str, Any]]:
        """Return the periods, oldest first. Times are given as ages, because the clients' clocks may differ."""
        return [_described(each, now) for each in self._periods if now - each.ended_at <= KEPT_S]


def _seen(activity: Activity, verdict: Verdict, now: float) -> ActivityPeriod:
    state = {"busy": "active", "unknown": "unknown"}.get(verdict.verdict)
    sources = activity.in_state(state) if state else []
    # An open page is not activity.
    ages = [age_s for name, age_s in verdict.ages_s.items() if age_s is not None and name != "connection"]
    quiet_s = verdict.idle_s if verdict.verdict == "idle" else min(ages, default=None)
    return ActivityPeriod(
        verdict=verdict.verdict,
        sources=tuple(name for name, _ in sources),
        detail="; ".join(dict.fromkeys(source.detail for _, source in sources if source.detail))[:_LONGEST_DETAIL],
        quiet_since=None if quiet_s is None else now - quiet_s,
        began_at=now,
        ended_at=now,
    )


def _described(period: ActivityPeriod, now: float) -> dict[str, Any]:
    quiet_since = period.quiet_since
    return {
        "verdict": period.verdict,
        "sources": list(period.sources),
        "detail": period.detail,
        "began_s": min(KEPT_S, now - period.began_at),
        "ended_s": now - period.ended_at,
        "quiet_s": None if quiet_since is None else now - quiet_since,
    }
