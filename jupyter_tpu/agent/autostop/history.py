"""What the guard saw in the last hour: stretches of time in which the node was in use, idle, or nobody could tell.

A look costs a comparison, and what goes on as before takes no room.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from jupyter_tpu.brakes import Activity, Verdict

KEPT_S = 3600.0

_MOST = 240
_LOOKED_S = 25.0
_SAME_S = 3.0
_LONGEST_DETAIL = 200


@dataclass(frozen=True)
class ActivityPeriod:
    """Times are those of a clock that nobody can set, in seconds.

    Attributes:
        verdict: see `Verdict`.
        sources: those which were active, or which nobody can read.
        detail: what was said of them at the last look.
        quiet_since: when anything went on last; None where that is not known.
    """

    verdict: str
    sources: tuple[str, ...]
    detail: str
    quiet_since: float | None
    began_at: float
    ended_at: float

    def goes_on_in(self, other: ActivityPeriod) -> bool:
        """Whether the other says the same of the next moment."""
        if (self.verdict, self.sources) != (other.verdict, other.sources):
            return False
        if self.quiet_since is None or other.quiet_since is None or self.verdict != "idle":
            return True
        return abs(self.quiet_since - other.quiet_since) <= _SAME_S


class ActivityHistory:
    """Remembers since the agent was started, at most `KEPT_S`."""

    def __init__(self) -> None:
        self._stretches: deque[ActivityPeriod] = deque(maxlen=_MOST)

    def see(self, activity: Activity, verdict: Verdict, now: float) -> None:
        """Take in a look."""
        seen, last = _seen(activity, verdict, now), self._stretches[-1] if self._stretches else None
        if last is None or now - last.ended_at > _LOOKED_S:
            self._stretches.append(seen)
        elif last.goes_on_in(seen):
            self._stretches[-1] = replace(last, ended_at=now, detail=seen.detail)
        else:
            self._stretches.append(replace(seen, began_at=last.ended_at))

    def describe(self, now: float) -> list[dict[str, Any]]:
        """The oldest first; moments as how long ago they were, so that no two clocks need to agree."""
        return [_described(each, now) for each in self._stretches if now - each.ended_at <= KEPT_S]


def _seen(activity: Activity, verdict: Verdict, now: float) -> ActivityPeriod:
    state = {"busy": "active", "unknown": "unknown"}.get(verdict.verdict)
    sources = activity.in_state(state) if state else []
    # an open page is no activity
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


def _described(stretch: ActivityPeriod, now: float) -> dict[str, Any]:
    quiet_since = stretch.quiet_since
    return {
        "verdict": stretch.verdict,
        "sources": list(stretch.sources),
        "detail": stretch.detail,
        "began_s": min(KEPT_S, now - stretch.began_at),
        "ended_s": now - stretch.ended_at,
        "quiet_s": None if quiet_since is None else now - quiet_since,
    }
