"""When a node is idle and when it must end: the rule that server and agent share. Pure, and valid for Python 3.10.

Activity is chip use, output, or a human. That a cell runs is a sign of it, no proof: with idle chips, silent, and with
nobody connected it counts as idle after a while (`Rules.unattended_after_s`). Where chip use can't be measured, output
and the CPU time of the kernels stand in. Where nothing can be read, the node counts as busy: the idle rule leaves it
alone, session and deadline do not. All times are Unix seconds of one clock; the caller keeps it from going backwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jupyter_tpu.errors import BadInput

WARNING_S = 600.0
"""How long before its end a node is warned of it; half of the idle time where that is shorter."""

UNATTENDED_AFTER_S = 2 * 3600.0
"""How long a silent cell may run with idle chips and nobody connected, unless the user says otherwise."""

REMIND_EVERY_S = 86400.0
"""A node that was billed for so long without a human act says so, and again after each such time."""

ACTIONS = ("stop", "delete")
LENGTHS = ("idle_after_s", "unattended_after_s", "session_s")
"""The fields of `Rules` that are spans; None turns each off."""

LONGEST_S = 400 * 86400.0
_SHORTEST_S = 1.0


def _check_span(name: str, value: Any) -> None:
    if value is not None and (not _is_number(value) or not _SHORTEST_S <= value <= LONGEST_S):
        raise BadInput(
            f"{name} must be from 1 second to 400 days, in seconds, or null for no limit.",
            exists="The rules are as they were.",
            hint="Say how long.",
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the user has laid down for a node.

    Attributes:
        idle_after_s: end the node when it has been idle for so long; None: never for that.
        unattended_after_s: count a cell as idle that has run for so long with idle chips, no output and nobody
            connected; None: a running cell is never idle. Says nothing without `idle_after_s`, and the longer counts.
        session_s: end it so long after it became READY; None: however long it takes.
        deadline_at: end it then, whatever anybody says later; None: there is none.
        action: ``stop`` or ``delete``.
    """

    idle_after_s: float | None = None
    unattended_after_s: float | None = UNATTENDED_AFTER_S
    session_s: float | None = None
    deadline_at: float | None = None
    action: str = "stop"

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise BadInput(f"{str(self.action)[:40]!r} is not an auto-stop action.", hint="Use stop or delete.")
        for name in LENGTHS:
            _check_span(name, getattr(self, name))
        if self.deadline_at is not None and not _is_number(self.deadline_at):
            raise BadInput("A deadline must be in Unix seconds.")

    @property
    def is_off(self) -> bool:
        """Whether nothing ends the node."""
        return self.idle_after_s is None and self.session_s is None and self.deadline_at is None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*LENGTHS, "deadline_at", "action")}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rules:
        """The inverse of `to_json`; what is missing has its default. Raises `BadInput` for anything else."""
        if not isinstance(data, Mapping) or set(data) - {*LENGTHS, "deadline_at", "action"}:
            raise BadInput("These are not auto-stop rules.")
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
    """What goes on, by source. Polls, open tabs and open terminals are no activity.

    Attributes:
        output: what cells print and show; None where the agent is too old to tell, and then a running cell is busy.
        connection: open pages and clients, which are no activity, but keep what runs from being unattended; None as
            for `output`.
        cpu: CPU time of the kernels' processes and of those that use the chips, where chip use can't be measured.
    """

    execution: Source = field(default_factory=Source)
    accelerator: Source = field(default_factory=Source)
    human: Source = field(default_factory=Source)
    output: Source | None = None
    connection: Source | None = None
    cpu: Source | None = None

    def __iter__(self) -> Iterator[tuple[str, Source]]:
        yield from ((name, source) for name in SOURCES if (source := getattr(self, name)) is not None)

    def in_state(self, state: str) -> list[tuple[str, Source]]:
        return [(name, source) for name, source in self if source.state == state]


OLDEST_SOURCES = ("execution", "accelerator", "human")
"""Those that every agent tells of."""
SOURCES = (*OLDEST_SOURCES, "output", "connection", "cpu")


def unknown(why: str) -> Activity:
    """Nothing can be read."""
    return Activity(
        execution=Source(detail=why), accelerator=Source(detail=why), human=Source(state="quiet", detail=why)
    )


def never_connected() -> Activity:
    """Nobody has ever come in, so nothing runs that we or a notebook would have started."""
    quiet = Source(state="quiet", detail="nobody has connected to the node yet")
    return Activity(execution=quiet, accelerator=quiet, human=quiet)


def not_running(state: str) -> Activity:
    """Nothing runs on a node that is not READY."""
    quiet = Source(state="quiet", detail=f"the node is {state}")
    return Activity(execution=quiet, accelerator=quiet, human=quiet)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a node is, and when it ends if nothing changes.

    Attributes:
        verdict: ``busy``, ``idle`` or ``unknown``.
        reason: one sentence for people.
        ages_s: source → seconds since it was active; None where that is not known.
        idle_s: for how long there was no activity, where the idle rule counts that now; else None.
        idle_limit_s: after how much of that the idle rule ends the node; None where it does not.
        ends_at: None where nothing ends it.
        ends_why: ``idle``, ``session`` or ``deadline``.
    """

    verdict: str
    reason: str
    ages_s: Mapping[str, float | None]
    idle_s: float | None
    idle_limit_s: float | None
    ends_at: float | None
    ends_why: str | None
    is_warning: bool
    is_due: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """Whether a node is used; `since` and `limit_s` are those of the idle rule, None where it does not count now."""

    verdict: str
    reason: str
    since: float | None = None
    limit_s: float | None = None


def judge(rules: Rules, activity: Activity, keep: Keep, ready_since: float | None, now: float) -> Verdict:
    """The rule.

    Args:
        ready_since: None while the node is not READY: it is not billed, and neither idle nor in a session.
    """
    use = _use(rules, activity, keep, ready_since, now)
    ends = dict(_ends(rules, activity, keep, ready_since, use))
    why = min(ends, key=lambda each: ends[each], default=None)
    ends_at = None if why is None else ends[why]
    left_s = math.inf if ends_at is None else ends_at - now
    return Verdict(
        verdict=use.verdict,
        reason=use.reason,
        ages_s={name: _age_s(source, now) for name, source in activity},
        idle_s=None if use.since is None else max(0.0, now - use.since),
        idle_limit_s=use.limit_s,
        ends_at=ends_at,
        ends_why=why,
        is_warning=left_s <= (_warning_s(use.limit_s) if why == "idle" else WARNING_S),
        is_due=left_s <= 0,
    )


def _use(rules: Rules, activity: Activity, keep: Keep, ready_since: float | None, now: float) -> _Use:
    """Proofs of activity first, then signs, which hold for a while; then the time since the last of either."""
    running = [each for each in activity.in_state("active") if each[0] == "execution"]
    hidden = [each for each in activity.in_state("unknown") if each[0] in OLDEST_SOURCES]
    proofs = [each for each in activity.in_state("active") if each[0] in _proofs(activity)]
    if proofs:
        return _Use(verdict="busy", reason=_said([*running, *proofs]))
    if not running and not hidden:
        since = _latest(activity, ("execution", *_proofs(activity)), ready_since)
        for_s = "" if since is None else f" for {span_text(now - since)}"
        reason = f"nothing has executed, used the accelerator or been typed{for_s}"
        return _Use(verdict="idle", reason=reason, since=since, limit_s=rules.idle_after_s)
    if ready_since is None or not _can_lapse(rules, activity, keep):
        if running:
            return _Use(verdict="busy", reason=_said([*running, *_open_pages(activity)]))
        return _Use(
            verdict="unknown",
            reason=f"{_said(hidden)}. That counts as busy: only a session's length or a deadline ends it",
        )
    return _lapsing(rules, activity, ready_since, now)


def _proofs(activity: Activity) -> tuple[str, ...]:
    """The sources that are activity; CPU time only in place of what can't be measured."""
    stand_ins = ("cpu",) if activity.accelerator.state == "unknown" else ()
    return ("accelerator", "human", "output", *stand_ins)


def _can_lapse(rules: Rules, activity: Activity, keep: Keep) -> bool:
    """Whether what merely runs counts as idle one day."""
    return (
        rules.idle_after_s is not None
        and rules.unattended_after_s is not None
        and not _holds_session(keep, activity)
        and all(source is not None and source.state != "unknown" for source in (activity.output, activity.connection))
        and not _open_pages(activity)
        and activity.execution.state != "unknown"
        and (activity.accelerator.state != "unknown" or (activity.cpu or Source()).state != "unknown")
    )


def _open_pages(activity: Activity) -> list[tuple[str, Source]]:
    return [each for each in activity.in_state("active") if each[0] == "connection"]


def _lapsing(rules: Rules, activity: Activity, ready_since: float, now: float) -> _Use:
    """A cell that runs, or a use that can't be measured: without proof, and with nobody connected."""
    since = _latest(activity, (*_proofs(activity), "connection"), ready_since)
    assert since is not None  # the node is READY
    limit_s = max(rules.idle_after_s or 0.0, rules.unattended_after_s or 0.0)
    is_running, is_hidden = activity.execution.state == "active", activity.accelerator.state == "unknown"
    signs = [f"{activity.execution.detail or 'a cell runs'}, but"] if is_running else []
    if is_hidden:
        signs.append(f"chip use can't be measured ({activity.accelerator.detail}); output and CPU time count instead:")
    quiet = "no output, no CPU time used" if is_hidden else "the chips are idle, there is no output"
    reason = f"{' '.join([*signs, quiet])} and nobody is connected for {span_text(now - since)}"
    verdict = "idle" if now >= since + limit_s else "busy" if is_running else "unknown"
    return _Use(verdict=verdict, reason=reason, since=since, limit_s=limit_s)


def _said(sources: Iterable[tuple[str, Source]]) -> str:
    """Each detail once: often one thing is the matter with all of them."""
    return "; ".join(dict.fromkeys(source.detail or f"{name}: {source.state}" for name, source in sources))


def _ends(
    rules: Rules, activity: Activity, keep: Keep, ready_since: float | None, use: _Use
) -> Iterator[tuple[str, float]]:
    if rules.deadline_at is not None:
        yield "deadline", rules.deadline_at
    if ready_since is None:
        return
    if rules.session_s is not None and not _holds_session(keep, activity):
        yield "session", max(ready_since + rules.session_s, keep.until or 0.0)
    if use.since is not None and use.limit_s is not None:
        yield "idle", max(use.since + use.limit_s, keep.until or 0.0)


def _holds_session(keep: Keep, activity: Activity) -> bool:
    return keep.while_busy and activity.execution.state == "active"


def _latest(activity: Activity, names: Iterable[str], ready_since: float | None) -> float | None:
    """The last that any of these sources was active, or the beginning."""
    found = [source.last_at for name, source in activity if name in names and source.last_at is not None]
    return None if ready_since is None else max([ready_since, *found])


def _warning_s(limit_s: float | None) -> float:
    return WARNING_S if limit_s is None else min(WARNING_S, limit_s / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder:
    """That a node was billed for a day or more without a human act.

    Attributes:
        since: the last human act that is known of, or the beginning.
        for_s: how long that is ago.
        days: whole times of `REMIND_EVERY_S` since then; with each the user is reminded again.
        usd: what the node has cost; None where that is not known.
    """

    since: float
    for_s: float
    days: int
    usd: float | None = None

    def text(self, node_id: str) -> str:
        """The reminder for people."""
        cost = "What it has cost is unknown." if self.usd is None else f"It has cost ${self.usd:,.2f}."
        return f"{node_id} has been billed for {span_text(self.for_s)} without any known action of yours. {cost}"

    def to_json(self, node_id: str) -> dict[str, Any]:
        return {"since": self.since, "days": self.days, "usd": self.usd, "text": self.text(node_id)}


def reminder(ready_since: float | None, acts: Iterable[float | None], now: float) -> Reminder | None:
    """What is due for a node that has been READY since then; `acts` are when people acted, as far as is known."""
    if ready_since is None:
        return None
    since = max([ready_since, *(act for act in acts if act is not None)])
    days = int((now - since) // REMIND_EVERY_S)
    return Reminder(since=since, for_s=now - since, days=days) if days > 0 else None


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


def moment_from_json(data: Mapping[str, Any]) -> Moment:
    """The inverse of `Moment.to_json`; raises TypeError, KeyError or ValueError for anything else."""
    return Moment(wall=float(data["wall"]), steady=float(data["steady"]), boot=str(data["boot"]))


def number_from(data: Mapping[str, Any], name: str) -> float:
    """A field that must be a number; raises `BadInput`."""
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise BadInput(f"{name} must be a number.")
    return float(value)
