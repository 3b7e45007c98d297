"""When a node is idle and when it must end: the rule that server and agent share. Pure, and valid for Python 3.10.

A node is idle while nothing executes, nothing uses its accelerator and nobody acts. A source that cannot be read may
hide work, so the node counts as busy then: the idle rule leaves it alone, session and deadline do not. All times are
Unix seconds of one clock, which the caller keeps from going backwards (`Span`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jupyter_tpu.errors import BadInput

WARNING_S = 600.0
"""How long before its end a node is warned of it; half of the idle time where that is shorter."""

ACTIONS = ("stop", "delete")
LONGEST_S = 400 * 86400.0
_SHORTEST_S = 1.0


def _check_span(name: str, value: Any) -> None:
    if value is not None and (not _is_number(value) or not _SHORTEST_S <= value <= LONGEST_S):
        raise BadInput(
            f"{name} must be a number of seconds of at least 1, or nothing at all.",
            exists="The rules are as they were.",
            hint="Say how long, at most 400 days.",
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the user has laid down for a node.

    Attributes:
        idle_after_s: end the node when it has been idle for so long; None: never for that.
        session_s: end it so long after it became READY; None: however long it takes.
        deadline_at: end it then, whatever anybody says later; None: there is none.
        action: ``stop`` or ``delete``.
    """

    idle_after_s: float | None = None
    session_s: float | None = None
    deadline_at: float | None = None
    action: str = "stop"

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise BadInput(f"{str(self.action)[:40]!r} is no action of a brake.", hint="Use stop or delete.")
        for name in ("idle_after_s", "session_s"):
            _check_span(name, getattr(self, name))
        if self.deadline_at is not None and not _is_number(self.deadline_at):
            raise BadInput("A deadline must be in Unix seconds.")

    @property
    def is_off(self) -> bool:
        """Whether nothing ends the node."""
        return self.idle_after_s is None and self.session_s is None and self.deadline_at is None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("idle_after_s", "session_s", "deadline_at", "action")}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rules:
        """The inverse of `to_json`; raises `BadInput` for anything else."""
        if not isinstance(data, Mapping) or set(data) - {"idle_after_s", "session_s", "deadline_at", "action"}:
            raise BadInput("These are no rules of a brake.")
        return cls(**data)


DEFAULT_RULES = Rules(idle_after_s=3600.0)
"""Those of a node that we created and for which nobody has said anything."""

DEFAULT_RULES_OF_DELETION = Rules(idle_after_s=4 * 3600.0, action="delete")
"""The same where the cloud can only delete the node, with its disk: then there is more time to come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """A wish to keep the node: until a time, or while something executes.

    It holds the idle rule off, and moves the end of the session to what was said; it never moves a deadline.
    """

    until: float | None = None
    while_busy: bool = False

    def __post_init__(self) -> None:
        if self.until is not None and not _is_number(self.until):
            raise BadInput("A node is kept until a time in Unix seconds.")
        if not isinstance(self.while_busy, bool):
            raise BadInput("while_busy must be true or false.")

    @property
    def is_none(self) -> bool:
        return self.until is None and not self.while_busy

    def to_json(self) -> dict[str, Any]:
        return {"until": self.until, "while_busy": self.while_busy}


NO_KEEP = Keep()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What one kind of activity is like.

    Attributes:
        state: ``active``, ``quiet`` or ``unknown``.
        last_at: when it was active last; None: not since the node is READY, as far as anybody saw.
        detail: who is active, or why it is not known; for people.
    """

    state: str = "unknown"
    last_at: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """The three sources. Polls, open tabs and open terminals are none of them."""

    execution: Source = field(default_factory=Source)
    accelerator: Source = field(default_factory=Source)
    human: Source = field(default_factory=Source)

    def __iter__(self) -> Iterator[tuple[str, Source]]:
        yield from (("execution", self.execution), ("accelerator", self.accelerator), ("human", self.human))

    def in_state(self, state: str) -> list[tuple[str, Source]]:
        return [(name, source) for name, source in self if source.state == state]


def unknown(why: str) -> Activity:
    """Nothing can be read."""
    return Activity(
        execution=Source(detail=why), accelerator=Source(detail=why), human=Source(state="quiet", detail=why)
    )


def never_connected() -> Activity:
    """Nobody has ever come in, so nothing runs that we or a notebook would have started."""
    quiet = Source(state="quiet", detail="nobody has connected to the node yet")
    return Activity(execution=quiet, accelerator=quiet, human=quiet)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a node is, and when it ends if nothing changes.

    Attributes:
        verdict: ``busy``, ``idle`` or ``unknown``.
        reason: one sentence for people.
        ages_s: source → seconds since it was active; None where that is not known.
        ends_at: None where nothing ends it.
        ends_why: ``idle``, ``session`` or ``deadline``.
    """

    verdict: str
    reason: str
    ages_s: Mapping[str, float | None]
    ends_at: float | None
    ends_why: str | None
    is_warning: bool
    is_due: bool


def judge(rules: Rules, activity: Activity, keep: Keep, ready_since: float | None, now: float) -> Verdict:
    """The rule.

    Args:
        ready_since: None while the node is not READY: it is not billed, and neither idle nor in a session.
    """
    verdict, reason = _verdict(activity, ready_since, now)
    ends = dict(_ends(rules, activity, keep, ready_since, is_idle=verdict == "idle"))
    why = min(ends, key=lambda each: ends[each], default=None)
    ends_at = None if why is None else ends[why]
    left_s = math.inf if ends_at is None else ends_at - now
    return Verdict(
        verdict=verdict,
        reason=reason,
        ages_s={name: _age_s(source, now) for name, source in activity},
        ends_at=ends_at,
        ends_why=why,
        is_warning=left_s <= _warning_s(rules, why),
        is_due=left_s <= 0,
    )


def _verdict(activity: Activity, ready_since: float | None, now: float) -> tuple[str, str]:
    active, hidden = activity.in_state("active"), activity.in_state("unknown")
    if active:
        return "busy", _said(active)
    if hidden:
        return "unknown", f"{_said(hidden)}. That counts as busy: only a session's length or a deadline ends it"
    since = _idle_since(activity, ready_since)
    for_s = "" if since is None else f" for {span_text(now - since)}"
    return "idle", f"nothing has executed, used the accelerator or been typed{for_s}"


def _said(sources: Iterable[tuple[str, Source]]) -> str:
    """Each detail once: often one thing is the matter with all of them."""
    return "; ".join(dict.fromkeys(source.detail or f"{name}: {source.state}" for name, source in sources))


def _ends(
    rules: Rules, activity: Activity, keep: Keep, ready_since: float | None, *, is_idle: bool
) -> Iterator[tuple[str, float]]:
    if rules.deadline_at is not None:
        yield "deadline", rules.deadline_at
    if ready_since is None:
        return
    if rules.session_s is not None and not _holds_session(keep, activity):
        yield "session", max(ready_since + rules.session_s, keep.until or 0.0)
    since = _idle_since(activity, ready_since)
    if is_idle and rules.idle_after_s is not None and since is not None:
        yield "idle", max(since + rules.idle_after_s, keep.until or 0.0)


def _holds_session(keep: Keep, activity: Activity) -> bool:
    return keep.while_busy and activity.execution.state == "active"


def _idle_since(activity: Activity, ready_since: float | None) -> float | None:
    """The last activity of any kind, or the beginning."""
    known = [source.last_at for _, source in activity if source.last_at is not None]
    return None if ready_since is None else max([ready_since, *known])


def _warning_s(rules: Rules, why: str | None) -> float:
    if why == "idle" and rules.idle_after_s is not None:
        return min(WARNING_S, rules.idle_after_s / 2)
    return WARNING_S


def _age_s(source: Source, now: float) -> float | None:
    if source.state == "active":
        return 0.0
    return None if source.last_at is None else max(0.0, now - source.last_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One look at both clocks of a machine.

    Attributes:
        wall: Unix seconds; anybody may set them.
        steady: seconds that only grow, from a beginning of their own; also while the machine sleeps.
        boot: what that beginning was; steady seconds of two boots cannot be compared.
    """

    wall: float
    steady: float
    boot: str = ""

    def age_s(self, now: Moment) -> float:
        """Seconds from then to now: what was counted where it can be, else the wall clock's difference."""
        counted = now.steady - self.steady if self.boot == now.boot else now.wall - self.wall
        return max(0.0, counted)

    def back(self, seconds: float) -> Moment:
        """So long before, on both clocks."""
        return replace(self, wall=self.wall - seconds, steady=self.steady - seconds)

    def to_json(self) -> dict[str, Any]:
        return {"wall": self.wall, "steady": self.steady, "boot": self.boot}


def earliest_end(end_at: float, first_seen: Moment, now: Moment) -> float:
    """A moment that the wall clock names, as it is now: a clock that was set back does not move it outwards."""
    left_s = min(end_at - now.wall, (end_at - first_seen.wall) - first_seen.age_s(now))
    return now.wall + left_s


def span_text(seconds: float) -> str:
    """``3 h 5 min``, ``2 h``, ``12 min``, ``40 s``."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole} s"
    hours, minutes = divmod(whole // 60, 60)
    parts = [f"{hours} h"] * bool(hours) + [f"{minutes} min"] * bool(minutes)
    return " ".join(parts)
