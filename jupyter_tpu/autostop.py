"""Auto-stop rules: when a node is idle and when it must stop.

The server and the agent both use this module, which needs only Python 3.10 and does no I/O. Start with `judge`, which
takes rules and activity and returns a `Verdict`. Activity is chip use, output or a user action. A running cell alone is
a sign of activity, not proof: with idle chips, no output and no client connected, it counts as idle after
`Rules.unattended_after_s`. If chip use can't be measured, output and the CPU time of the kernels count instead. If
nothing can be measured, the idle timeout treats the node as busy, but the session limit and the deadline still apply.
All times are Unix seconds of one clock; the caller makes sure that this clock never goes backwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import BadInput, Text, joined

WARNING_S = 600.0
"""How long before a node stops the warning is shown, in seconds, but at most half of the idle timeout.

Our choice: ten minutes are enough to notice a warning in a panel and to extend the node.
"""

UNATTENDED_AFTER_S = 2 * 3600.0
"""Default of `Rules.unattended_after_s`, in seconds.

While a cell compiles or loads data, the chips are idle and there may be no output. Two hours are enough for that.
"""

REMIND_EVERY_S = 86400.0
"""Interval of the reminders about a node that is billed without any user action, in seconds."""

ACTIONS = ("stop", "delete")
DURATION_FIELDS = ("idle_after_s", "unattended_after_s", "session_s")
"""The fields of `Rules` that are durations in seconds; None turns each off."""

# Maximum duration of a rule, more than a year. A longer duration is a typo or a timestamp.
LONGEST_S = 400 * 86400.0
# Minimum duration of a rule. A node that stops less than a second after it becomes idle would be unusable.
_SHORTEST_S = 1.0


def _check_duration(name: str, value: Any) -> None:
    if value is not None and (not _is_number(value) or not _SHORTEST_S <= value <= LONGEST_S):
        raise BadInput(
            Text(
                "The field '{field}' must be a number of seconds from 1 to 34560000 (400 days), or null for no limit.",
                field=name,
            ),
            exists="The rules were not changed.",
            hint="Send a number from 1 to 34560000, or null.",
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The auto-stop rules of a node, as set by the user.

    Attributes:
        idle_after_s: idle timeout; None turns it off.
        unattended_after_s: how long a running cell still counts as activity while the chips are idle, there is no
            output and no client is connected; None if a running cell is never idle. Has no effect without
            `idle_after_s`; the longer of the two applies.
        session_s: maximum session length, counted from READY; None for no limit.
        deadline_at: a fixed end (Unix seconds) that extensions don't change; None for no deadline.
        action: ``stop`` or ``delete``.

    Raises:
        BadInput: a value is out of range.
    """

    idle_after_s: float | None = None
    unattended_after_s: float | None = UNATTENDED_AFTER_S
    session_s: float | None = None
    deadline_at: float | None = None
    action: str = "stop"

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise BadInput(
                Text("{action} is not an auto-stop action.", action=repr(str(self.action)[:40])),
                hint="Use stop or delete.",
            )
        for name in DURATION_FIELDS:
            _check_duration(name, getattr(self, name))
        if self.deadline_at is not None and not _is_number(self.deadline_at):
            raise BadInput("The deadline must be a time in Unix seconds.")

    @property
    def is_off(self) -> bool:
        """Whether no rule stops the node."""
        return self.idle_after_s is None and self.session_s is None and self.deadline_at is None

    def to_json(self) -> dict[str, Any]:
        """Return the rules in the format in which they are stored and sent."""
        return {name: getattr(self, name) for name in (*DURATION_FIELDS, "deadline_at", "action")}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rules:
        """Rebuild rules from `to_json`; missing fields get their defaults. Raise `BadInput` for other data."""
        if not isinstance(data, Mapping) or set(data) - {*DURATION_FIELDS, "deadline_at", "action"}:
            raise BadInput("The auto-stop rules are not valid.")
        return cls(**data)


DEFAULT_RULES = Rules(idle_after_s=3600.0)
"""The rules of a node that jupyter_tpu created, until the user sets other rules: at most one idle hour is billed."""

DEFAULT_DELETE_RULES = Rules(idle_after_s=4 * 3600.0, action="delete")
"""The default rules of a node that the cloud can only delete, with its disk. The user gets more time to return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRunning:
    """A request to keep the node running until a time (Unix seconds) or while something executes.

    It suspends the idle timeout and extends the session to the given time, but never changes a deadline.

    Raises:
        BadInput: a field has the wrong type.
    """

    until: float | None = None
    while_busy: bool = False

    def __post_init__(self) -> None:
        if self.until is not None and not _is_number(self.until):
            raise BadInput("The field 'until' must be a time in Unix seconds.")
        if not isinstance(self.while_busy, bool):
            raise BadInput("The field 'while_busy' must be true or false.")

    @property
    def is_none(self) -> bool:
        """Whether the request is empty."""
        return self.until is None and not self.while_busy

    def to_json(self) -> dict[str, Any]:
        """Return the request in the format in which it is stored and sent."""
        return {"until": self.until, "while_busy": self.while_busy}


NO_KEEP_RUNNING = KeepRunning()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source of activity: its current state and when it was last active.

    Attributes:
        state: ``active``, ``quiet`` or ``unknown``.
        last_at: when it was last active; None if it never was since the node became READY.
        detail: the active user or process, or why the state is unknown, for display.
    """

    state: str = "unknown"
    last_at: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """All sources of activity of a node. Polling, open tabs and open terminals don't count as activity.

    Attributes:
        execution: running and waiting cells.
        accelerator: use of the chips.
        human: user actions, such as running a cell.
        output: printed text and displays of cells; None if the agent is too old to report output. A running cell then
            counts as busy.
        connection: open pages and clients. They don't count as activity, but while one is connected, a running cell is
            not unattended; None as for `output`.
        cpu: CPU time of the kernels and of the TPU processes; only if chip use can't be measured.
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
        """Return the sources of activity that are in this state, each with its name."""
        return [(name, source) for name, source in self if source.state == state]


OLDEST_SOURCES = ("execution", "accelerator", "human")
"""The sources that every agent reports, even the oldest version."""
SOURCES = (*OLDEST_SOURCES, "output", "connection", "cpu")
"""Names of all sources: the fields of `Activity`."""


def unknown(why: str) -> Activity:
    """Return the activity of a node that can't be observed, with the reason."""
    return Activity(
        execution=Source(detail=why), accelerator=Source(detail=why), human=Source(state="quiet", detail=why)
    )


def never_connected() -> Activity:
    """Return the activity of a node that no client has ever connected to: no cell can be running there."""
    quiet = Source(state="quiet", detail=Text("no client has connected to the node yet"))
    return Activity(execution=quiet, accelerator=quiet, human=quiet)


def not_running(state: str) -> Activity:
    """Return the activity of a node that is not READY: nothing is running there."""
    quiet = Source(state="quiet", detail=Text("the node is {state}", state=state))
    return Activity(execution=quiet, accelerator=quiet, human=quiet)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a node is in use, and when it will stop if nothing changes.

    Attributes:
        verdict: ``busy``, ``idle`` or ``unknown``.
        reason: one sentence for display.
        ages_s: seconds since each source was active; None where unknown.
        idle_s: seconds without activity while the idle timer is running; else None.
        idle_limit_s: the `idle_s` at which the idle timeout stops the node; None if it does not apply.
        ends_at: when the node will stop (Unix seconds); None if no rule stops it.
        ends_why: ``idle``, ``session`` or ``deadline``; None as for `ends_at`.
        is_warning: whether the stop is near enough for a warning.
        is_due: whether the node must stop now.
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
    """The verdict on whether a node is in use; `since` and `limit_s` are None while the idle timer is not running."""

    verdict: str
    reason: str
    since: float | None = None
    limit_s: float | None = None


def judge(rules: Rules, activity: Activity, keep: KeepRunning, ready_since: float | None, now: float) -> Verdict:
    """Decide whether a node is in use and when it must stop.

    Args:
        ready_since: when the node became READY; None while it is not READY. A node that is not READY is not billed, not
            idle and in no session.
        now: Unix seconds, from the same clock as all other times.
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


def _use(rules: Rules, activity: Activity, keep: KeepRunning, ready_since: float | None, now: float) -> _Use:
    """Return whether the node is in use.

    A node with proof of activity is busy. Without proof, a running cell or an unreadable source counts as use for a
    limited time. Without any of these, the node is idle.
    """
    running = [each for each in activity.in_state("active") if each[0] == "execution"]
    # Older agents don't report the newer sources. A source that they don't report must not make the whole node unknown.
    hidden = [each for each in activity.in_state("unknown") if each[0] in OLDEST_SOURCES]
    proofs = [each for each in activity.in_state("active") if each[0] in _proofs(activity)]
    if proofs:
        return _Use(verdict="busy", reason=_joined_details([*running, *proofs]))
    # All sources are readable and quiet, so the idle timeout counts from the last activity.
    if not running and not hidden:
        since = _latest(activity, ("execution", *_proofs(activity)), ready_since)
        reason = Text("no activity")
        if since is not None:
            reason = Text("no activity for {duration}", duration=duration_text(now - since))
        return _Use(verdict="idle", reason=reason, since=since, limit_s=rules.idle_after_s)
    # A running cell or an unreadable source without proof of use counts as busy, unless the rules limit how long this
    # keeps the node running.
    if ready_since is None or not _can_lapse(rules, activity, keep):
        if running:
            return _Use(verdict="busy", reason=_joined_details([*running, *_open_pages(activity)]))
        return _Use(verdict="unknown", reason=_joined_details(hidden))
    return _lapsing(rules, activity, ready_since, now)


def _proofs(activity: Activity) -> tuple[str, ...]:
    """Return the names of the sources that prove activity. CPU time is included only if chip use can't be measured."""
    stand_ins = ("cpu",) if activity.accelerator.state == "unknown" else ()
    return ("accelerator", "human", "output", *stand_ins)


def _can_lapse(rules: Rules, activity: Activity, keep: KeepRunning) -> bool:
    """Return whether a running cell without proof of activity may count as idle after a while.

    Every source that could show activity must be readable: an unreadable source does not prove that the node is
    unattended.
    """
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
    """Determine whether a node without a client is idle if a cell runs or chip use can't be measured."""
    since = _latest(activity, (*_proofs(activity), "connection"), ready_since)
    assert since is not None  # the node is READY
    limit_s = max(rules.idle_after_s or 0.0, rules.unattended_after_s or 0.0)
    is_running, is_hidden = activity.execution.state == "active", activity.accelerator.state == "unknown"
    signs = [Text("{cell}, but", cell=activity.execution.detail or Text("a cell is running"))] if is_running else []
    # Why chip use is unknown is a detail of its source.
    quiet = (
        Text("no output, CPU time or connected client for {duration}; chip use can't be measured")
        if is_hidden
        else Text("the chips are idle, there is no output, and no client has been connected for {duration}")
    )
    reason = joined([*signs, quiet.with_arguments(duration=duration_text(now - since))], " ")
    verdict = "idle" if now >= since + limit_s else "busy" if is_running else "unknown"
    return _Use(verdict=verdict, reason=reason, since=since, limit_s=limit_s)


def _joined_details(sources: Iterable[tuple[str, Source]]) -> str:
    """Join the details of `sources`. Several sources often have the same detail, which is then listed once."""
    return joined(dict.fromkeys(source.detail or f"{name}: {source.state}" for name, source in sources), "; ")


def _ends(
    rules: Rules, activity: Activity, keep: KeepRunning, ready_since: float | None, use: _Use
) -> Iterator[tuple[str, float]]:
    """Yield the cause and time of each stop that the rules schedule."""
    if rules.deadline_at is not None:
        yield "deadline", rules.deadline_at
    if ready_since is None:
        return
    if rules.session_s is not None and not _holds_session(keep, activity):
        yield "session", max(ready_since + rules.session_s, keep.until or 0.0)
    if use.since is not None and use.limit_s is not None:
        yield "idle", max(use.since + use.limit_s, keep.until or 0.0)


def _holds_session(keep: KeepRunning, activity: Activity) -> bool:
    return keep.while_busy and activity.execution.state == "active"


def _latest(activity: Activity, names: Iterable[str], ready_since: float | None) -> float | None:
    """Return when any of these sources was last active, or when the node became READY if none was."""
    found = [source.last_at for name, source in activity if name in names and source.last_at is not None]
    return None if ready_since is None else max([ready_since, *found])


def _warning_s(limit_s: float | None) -> float:
    # Otherwise a short idle timeout would always show its warning.
    return WARNING_S if limit_s is None else min(WARNING_S, limit_s / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder:
    """A reminder that a node has been billed for a day or more without a user action.

    Attributes:
        since: time of the last known user action, or when the node became READY (Unix seconds).
        for_s: seconds since then.
        days: the number of whole intervals of `REMIND_EVERY_S` since then; the user is reminded after each interval.
        usd: the node's cost so far in US dollars; None if unknown.
    """

    since: float
    for_s: float
    days: int
    usd: float | None = None

    def text(self, node_id: str) -> str:
        """Return the reminder as a text for display."""
        cost = Text("Its cost is unknown.")
        if self.usd is not None:
            cost = Text("Its cost so far is ${usd}.", usd=f"{self.usd:,.2f}")
        return Text(
            "{node} has been billed for {duration} without any known activity from you. {cost}",
            node=node_id,
            duration=duration_text(self.for_s),
            cost=cost,
        )

    def to_json(self, node_id: str) -> dict[str, Any]:
        """Return the reminder as it appears in the REST API."""
        return {"since": self.since, "days": self.days, "usd": self.usd, "text": self.text(node_id)}


def reminder(ready_since: float | None, acts: Iterable[float | None], now: float) -> Reminder | None:
    """Return the reminder that is due, or None.

    Args:
        ready_since: when the node became READY; None while it is not READY.
        acts: the known times of user actions. None values and future times, which a wrong clock recorded, are ignored.
    """
    if ready_since is None:
        return None
    since = max([ready_since, *(act for act in acts if act is not None and act <= now)])
    days = int((now - since) // REMIND_EVERY_S)
    return Reminder(since=since, for_s=now - since, days=days) if days > 0 else None


def _age_s(source: Source, now: float) -> float | None:
    if source.state == "active":
        return 0.0
    return None if source.last_at is None else max(0.0, now - source.last_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One reading of a machine's two clocks.

    Attributes:
        wall: Unix seconds; users and NTP may set this clock.
        steady: seconds since the boot or, without `boot`, since any time; they only increase.
        boot: the boot from which `steady` counts; readings from two boots can't be compared.
    """

    wall: float
    steady: float
    boot: str = ""

    def age_s(self, now: Moment) -> float:
        """Return the seconds from this moment to `now`: monotonic time or, after a reboot, wall-clock time.

        After a reboot, at least the time since then has passed, even if the wall clock was set back.
        """
        if self.boot == now.boot:
            return max(0.0, now.steady - self.steady)
        return max(0.0, now.steady, now.wall - self.wall)

    def back(self, seconds: float) -> Moment:
        """Return the moment `seconds` earlier, on the wall clock and the monotonic clock."""
        return replace(self, wall=self.wall - seconds, steady=self.steady - seconds)

    def to_json(self) -> dict[str, Any]:
        """Return the moment in the format in which it is stored and sent."""
        return {"wall": self.wall, "steady": self.steady, "boot": self.boot}


def earliest_end(end_at: float, first_seen: Moment, now: Moment) -> float:
    """Return the end time by the clock at `now`. If the clock was set back, the end is not postponed.

    Args:
        end_at: the end in Unix seconds, by the clock at `first_seen`.
        first_seen: when the end first became known.
    """
    left_s = min(end_at - now.wall, (end_at - first_seen.wall) - first_seen.age_s(now))
    return now.wall + left_s


def moment_from_json(data: Mapping[str, Any]) -> Moment:
    """Rebuild a moment from `Moment.to_json`; raise TypeError, KeyError or ValueError for other data."""
    return Moment(wall=float(data["wall"]), steady=float(data["steady"]), boot=str(data["boot"]))


def number_from(data: Mapping[str, Any], name: str) -> float:
    """Return the number in a field; raise `BadInput` if the field is not a finite number."""
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise BadInput(Text("The field '{field}' must be a number.", field=name))
    return float(value)
