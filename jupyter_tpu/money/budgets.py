"""Budgets: caps in US dollars or in hours of READY nodes, per day, week or month, or in total.

A window begins at a time by the user's wall clock. Functions that use windows therefore take `offset_at`, which returns
the wall clock's offset from UTC at a given time. Costs are counted as in `Cost.worst_usd`: an unknown price counts as
the highest known price.
"""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jupyter_tpu.errors import BadInput, ShownTime, Text, TpuError
from jupyter_tpu.money.days import OffsetAt, day_text, wall_moment
from jupyter_tpu.money.spans import HOUR_S, Cost, Span, Window, at_worst, cost

Unit = Literal["usd", "hours"]
Period = Literal["day", "week", "month", "total"]
Action = Literal["stop", "stop-all", "warn"]
Level = Literal["ok", "50", "80", "100"]

UNITS = ("usd", "hours")
PERIODS = ("day", "week", "month", "total")
ACTIONS = ("stop", "stop-all", "warn")
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
FIELDS = ("amount", "unit", "period", "resets_on", "resets_at", "action")

_DAY_S = 86_400.0
# Bounds of an amount. Below the minimum, the used fraction could become infinite, which JSON doesn't support.
_MOST = 1_000_000_000.0
_LEAST = 1e-9
# Differences below this share of the usage are due to rounding: sums of other parts of the same time differ slightly.
_ROUNDING = 1e-9
# Don't compute dates further ahead, because calendars and clocks may be unable to represent them.
_FAR_OFF_S = 100 * 365 * _DAY_S
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}")
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_NOTHING_DONE = "No budget was changed."
# The weekday of day 0, 1970-01-01: a Thursday, counted from Monday as 0.
_FIRST_WEEKDAY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A budget that the user has set.

    Attributes:
        amount: the cap in `unit`; must be more than 0. ``hours`` are the sum of the hours of all nodes.
        resets_on: the weekday on which a weekly budget resets; None for other periods.
        resets_at: the time at which a day, week or month begins, as ``HH:MM`` by the wall clock.
        action: what to do when the cap is reached. ``stop`` and ``stop-all`` stop nodes and reject new nodes. ``stop``
            does not apply to nodes covered by a grant, unless `unit` is ``hours``, because these nodes use hours too.
    """

    name: str
    amount: float
    unit: Unit
    period: Period
    resets_on: str | None = None
    resets_at: str = "00:00"
    action: Action = "stop"

    @property
    def stops_nodes(self) -> bool:
        """Whether the cap stops nodes and blocks new nodes."""
        return self.action != "warn"

    @property
    def spares_granted(self) -> bool:
        """Whether nodes covered by a grant keep running at the cap."""
        return self.action == "stop" and self.unit == "usd"

    def to_json(self) -> dict[str, Any]:
        """Return all fields except the name, for the REST API and the journal."""
        return {field: getattr(self, field) for field in FIELDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenBudget:
    """A stored budget that cannot be read. It blocks billable requests until it is replaced or removed."""

    name: str
    error: TpuError


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How much of a budget has been used.

    Attributes:
        used: the maximum usage in the budget's unit. Unmonitored time counts as READY.
        watched: the part of `used` that was observed.
        fraction: the used fraction of the budget's amount; may be more than 1.
        runs_out_at: when the budget runs out at the current rate (Unix seconds). None if no node is READY, if the
            window ends earlier, or if the budget lasts more than 100 years.
    """

    window: Window
    used: float
    watched: float
    fraction: float
    level: Level
    runs_out_at: float | None

    @property
    def unwatched(self) -> float:
        """The part of `used` that comes from unmonitored time."""
        rest = self.used - self.watched
        return rest if rest > _ROUNDING * self.used else 0.0

    @property
    def is_used_up(self) -> bool:
        """Whether the budget's cap is reached."""
        return self.level == "100"


def budget_from_json(name: str, data: Mapping[str, Any]) -> Budget:
    """Parse a budget from a request body or the journal.

    Raises:
        BadInput: a field is missing, unknown or invalid; the message names it.
    """
    if not _NAME.fullmatch(name):
        raise _bad(
            Text("{name} is not a valid budget name.", name=repr(name[:70])),
            "Use 1 to 63 letters, digits, spaces, dots and hyphens.",
        )
    unknown = sorted(set(data) - set(FIELDS))
    if unknown:
        raise _bad(
            Text("A budget has no field {field}.", field=repr(unknown[0][:40])),
            Text("Valid fields: {fields}.", fields=", ".join(FIELDS)),
        )
    period: Period = _one_of(PERIODS, data.get("period"), "period")
    return Budget(
        name=name,
        amount=_amount(data.get("amount")),
        unit=_one_of(UNITS, data.get("unit"), "unit or currency"),
        period=period,
        resets_on=_weekday(data.get("resets_on"), period),
        resets_at=_time(data.get("resets_at")),
        action=_one_of(ACTIONS, data.get("action", "stop"), "action"),
    )


def _bad(message: str, hint: str) -> BadInput:
    return BadInput(message, exists=_NOTHING_DONE, hint=hint)


def _one_of(choices: tuple[str, ...], value: object, what: str) -> Any:
    if not isinstance(value, str) or value not in choices:
        raise _bad(
            Text("{value} is not a valid {what} for a budget.", value=repr(str(value)[:40]), what=what),
            Text("Valid values: {choices}.", choices=", ".join(choices)),
        )
    return value


def _amount(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and _LEAST <= value <= _MOST:
        return float(value)
    raise _bad(
        Text("{value} is not an amount for a budget.", value=str(value)[:40]),
        Text("Use a number above {least}, at most {most}.", least=f"{_LEAST:.9f}", most=f"{_MOST:,.0f}"),
    )


def _weekday(value: object, period: Period) -> str | None:
    if period != "week":
        if value is not None:
            raise _bad(
                Text("Only a weekly budget resets on a weekday; this budget's period is {period}.", period=period),
                "Omit resets_on, or set the period to week.",
            )
        return None
    day: str = _one_of(WEEKDAYS, "monday" if value is None else value, "weekday")
    return day


def _time(value: object) -> str:
    text = "00:00" if value is None else value
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        raise _bad(
            Text("{value} is not a time of day.", value=repr(str(value)[:40])), "Use HH:MM, from 00:00 to 23:59."
        )
    return text


def window_of(budget: Budget, now: float, offset_at: OffsetAt) -> Window:
    """Return the window of the budget that contains `now` (Unix seconds)."""
    if budget.period == "total":
        return Window()
    hours, minutes = budget.resets_at.split(":")
    reset_s = int(hours) * HOUR_S + int(minutes) * 60.0

    def begins(day: int) -> float:
        # use each day's own UTC offset: with today's offset, it would be an hour off after a clock change
        return wall_moment(day * _DAY_S + reset_s, offset_at)

    day = math.floor((now + offset_at(now) - reset_s) / _DAY_S)
    # On the night of a clock change, the wall clock skips or repeats times, so the day can be off by 1.
    day += (now >= begins(day + 1)) - (now < begins(day))
    first, last = _days(budget, day)
    return Window(starts_at=begins(first), ends_at=begins(last))


def _days(budget: Budget, day: int) -> tuple[int, int]:
    """Return the first day of the current period and the first day of the next period."""
    if budget.period == "day":
        return day, day + 1
    if budget.period == "week":
        first = day - (day + _FIRST_WEEKDAY - WEEKDAYS.index(budget.resets_on or "monday")) % 7
        return first, first + 7
    year, month, day_of_month = (int(part) for part in day_text(day).split("-"))
    first = day - day_of_month + 1
    return first, first + calendar.monthrange(year, month)[1]


def usage_of(
    budget: Budget, spans: Sequence[Span], now: float, offset_at: OffsetAt, *, worst: Sequence[Span] | None = None
) -> Usage:
    """Return how much of a budget these spans use.

    Args:
        worst: the spans with their maximum durations, see `spans.at_worst`; computed if None.
    """
    window = window_of(budget, now, offset_at)
    # the limit must hold even if nodes were READY in all unmonitored time; the observed amount is only shown next to it
    longest = [at_worst(span) for span in spans] if worst is None else worst
    used = _counted(budget.unit, cost(longest, window, now))
    fraction = used / budget.amount
    return Usage(
        window=window,
        used=used,
        watched=min(used, _counted(budget.unit, cost(spans, window, now))),
        fraction=fraction,
        level=level_of(fraction),
        runs_out_at=_runs_out_at(budget.amount - used, rate_per_hour(budget.unit, spans), window, now),
    )


def _counted(unit: Unit, spent: Cost) -> float:
    return spent.worst_usd if unit == "usd" else spent.ready_s / HOUR_S


def level_of(fraction: float) -> Level:
    """Return the highest threshold that a fraction has reached, in percent."""
    if fraction >= 1.0:
        return "100"
    return "80" if fraction >= 0.8 else "50" if fraction >= 0.5 else "ok"


def rate_per_hour(unit: Unit, spans: Iterable[Span]) -> float:
    """Return how much of a budget the currently READY nodes use up per hour, in the budget's unit."""
    return sum((span.usd_per_hour_at_worst if unit == "usd" else 1.0) for span in spans if span.is_open)


def _runs_out_at(left: float, rate: float, window: Window, now: float) -> float | None:
    if left <= 0:
        return now
    at = now + left / rate * HOUR_S if rate > 0 else math.inf
    return None if at - now > _FAR_OFF_S or (window.ends_at is not None and at >= window.ends_at) else at


def amount_text(budget: Budget, amount: float) -> str:
    """Format an amount as ``$20.00`` or ``7.50 hours``; dollar amounts below one cent get up to six decimals."""
    if budget.unit == "hours":
        return Text("{hours} hours", hours=f"{amount:,.2f}")
    return f"${amount:,.2f}" if amount >= 0.01 or not amount else f"${max(amount, 1e-6):.6f}".rstrip("0")


_USAGES: Mapping[Period, Text] = {
    "day": Text("{used} of {amount} today"),
    "week": Text("{used} of {amount} this week"),
    "month": Text("{used} of {amount} this month"),
    "total": Text("{used} of {amount} in total"),
}


def usage_text(budget: Budget, usage: Usage) -> Text:
    """Format a usage as ``$16.02 of $20.00 this week``, preceded by ``up to`` if part of it is unmonitored."""
    text = _USAGES[budget.period].with_arguments(
        used=amount_text(budget, usage.used), amount=amount_text(budget, budget.amount)
    )
    return Text("up to {usage}", usage=text) if usage.unwatched else text


def unmonitored_text(budget: Budget, usage: Usage) -> str:
    """Return a sentence about unmonitored time, or "" if all time was monitored."""
    if not usage.unwatched:
        return ""
    return Text(
        "Up to {part} of it is unmonitored time in which nodes may have been READY.",
        part=amount_text(budget, usage.unwatched),
    )


def moment_text(at: float, utc_offset_s: float) -> ShownTime:
    """Format Unix seconds as ``2026-11-01 09:00`` by a wall clock with this offset from UTC."""
    local = int(at + utc_offset_s)
    day, second = divmod(local, int(_DAY_S))
    return ShownTime(f"{day_text(day)} {second // 3600:02}:{second % 3600 // 60:02}", at)
