"""Spend per hour or per day, for the REST API and the CLI's ``--json``.

Hours and days follow the user's wall clock; a day with a clock change has 23 or 25 hours.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.money.days import OffsetAt, day_text, wall_moment
from jupyter_tpu.money.spans import HOUR_S, Span, at_worst
from jupyter_tpu.money.spending import CURRENCY, Account

JSON = dict[str, Any]
By = Literal["hour", "day"]

DEFAULT_SLOTS = {"hour": 24, "day": 30}
"""Default number of hours or days to show."""

MAX_SLOTS = {"hour": 168, "day": 92}
"""Maximum number of hours or days to show: a week of hours, or three months of days."""

_DAY_S = 86_400.0
_ROUNDING_S = 0.001  # shorter gaps are rounding: the observed and the longest times are summed separately
_GRAIN = 1e-15  # unit for summing rates per second as integers; far below any price, so rounding is invisible


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Spend of one hour or day.

    Attributes:
        starts_at, ends_at: Unix seconds.
        known_usd: cost of the observed READY time of nodes whose price is known.
        up_to_usd: the same cost if those nodes were READY during all unmonitored time; never less than `known_usd`.
        ready_s: observed node-seconds.
        unpriced_s: the part of `ready_s` without a known price.
        up_to_ready_s: node-seconds including unmonitored time; never less than `ready_s`.
    """

    starts_at: float
    ends_at: float
    known_usd: float
    up_to_usd: float
    ready_s: float
    unpriced_s: float
    up_to_ready_s: float

    @property
    def usd(self) -> float | None:
        """The cost of the hour or day, or None if a price is unknown."""
        return None if self.unpriced_s else self.known_usd

    @property
    def unwatched_s(self) -> float:
        """Unmonitored node-seconds."""
        gap = self.up_to_ready_s - self.ready_s
        return gap if gap > _ROUNDING_S else 0.0


def edges(by: By, last: int, now: float, offset_at: OffsetAt) -> list[float]:
    """Return the `last` + 1 times at which slots begin or end; the last slot contains `now`.

    Raises:
        BadInput: `last` is out of range.
    """
    if not 1 <= last <= MAX_SLOTS[by]:
        raise BadInput(
            Text("The last {count} {units} cannot be shown.", count=last, units=f"{by}s"),
            hint=Text("Use a number from 1 to {most}.", most=MAX_SLOTS[by]),
        )
    return _day_edges(last, now, offset_at) if by == "day" else _hour_edges(last, now, offset_at)


def _hour_edges(last: int, now: float, offset_at: OffsetAt) -> list[float]:
    offset_s = offset_at(now)
    end = ((now + offset_s) // HOUR_S + 1) * HOUR_S - offset_s
    return [end - back * HOUR_S for back in range(last, -1, -1)]


def _day_edges(last: int, now: float, offset_at: OffsetAt) -> list[float]:
    today = int((now + offset_at(now)) // _DAY_S)
    return [wall_moment(day * _DAY_S, offset_at) for day in range(today - last + 1, today + 2)]


def history(account: Account, at: Sequence[float]) -> list[Slot]:
    """Return the spend between consecutive times in `at`, which is sorted in ascending order."""
    spans, now = account.spans, account.now
    worst = [at_worst(span) for span in spans] if account.worst is None else account.worst
    unpriced = [span for span in spans if span.usd_per_hour is None]
    # compute observed and maximum amounts separately: the difference may have been spent in unmonitored time
    columns = (
        spread(spans, at, now, _known_usd_per_s),
        spread(worst, at, now, _known_usd_per_s),
        spread(spans, at, now, _one),
        spread(unpriced, at, now, _one),
        spread(worst, at, now, _one),
    )
    return [
        Slot(
            starts_at=starts_at,
            ends_at=ends_at,
            known_usd=known,
            up_to_usd=max(known, up_to),  # rounding could make the second sum slightly smaller than the first
            ready_s=ready_s,
            unpriced_s=unpriced_s,
            up_to_ready_s=max(ready_s, up_to_s),
        )
        for (starts_at, ends_at), known, up_to, ready_s, unpriced_s, up_to_s in zip(
            itertools.pairwise(at), *columns, strict=True
        )
    ]


def spread(spans: Iterable[Span], at: Sequence[float], now: float, per_second: Callable[[Span], float]) -> list[float]:
    """Return the total of a quantity, such as cost, for each slot between two successive times in `at`.

    The work for a span doesn't depend on the number of slots that it covers: its amounts in the first and last slot are
    added directly, and the slots in between come from a running sum of rates.

    Args:
        per_second: the amount that a span adds per second.
    """
    # use integers for the running sum, because float sums would leave a remainder at the end of a span
    parts, changes = [0.0] * (len(at) - 1), [0] * len(at)
    for span in spans:
        ends_at = max(span.ended_at, now) if span.is_open else span.ended_at
        first = max(0, bisect.bisect_right(at, span.began_at) - 1)
        last = min(bisect.bisect_left(at, ends_at), len(parts)) - 1
        rate = per_second(span)
        for number in {first, last} if first <= last else ():
            within = min(ends_at, at[number + 1]) - max(span.began_at, at[number])
            parts[number] += rate * max(0.0, within)
        if first + 1 < last:
            changes[first + 1] += round(rate / _GRAIN)
            changes[last] -= round(rate / _GRAIN)
    whole = itertools.accumulate(changes[:-1])
    lengths = (end - start for start, end in itertools.pairwise(at))
    columns = zip(parts, whole, lengths, strict=True)
    return [part + (rate * _GRAIN * length if rate else 0.0) for part, rate, length in columns]


def _known_usd_per_s(span: Span) -> float:
    return (span.usd_per_hour or 0.0) / HOUR_S


def _one(_: Span) -> float:
    return 1.0


def history_view(account: Account, by: By, last: int, offset_at: OffsetAt) -> JSON:
    """Return the body of ``GET spend/history`` for the last hours or days.

    Raises:
        BadInput: `last` is out of range.
    """
    slots = history(account, edges(by, last, account.now, offset_at))
    return {
        "by": by,
        "currency": CURRENCY,
        "now": account.now,
        "slots": [_slot_view(slot, offset_at) for slot in slots],
        "sum": _sum_view(slots),
        "unpriced": unpriced_types(account.spans, slots[0].starts_at),
    }


def unpriced_types(spans: Iterable[Span], since: float) -> list[str]:
    """Return the accelerator types without a known price that were READY after `since`, sorted."""
    recent = (span for span in spans if span.is_open or span.ended_at > since)
    return sorted({span.accelerator_type for span in recent if span.usd_per_hour is None})


def _slot_view(slot: Slot, offset_at: OffsetAt) -> JSON:
    middle = (slot.starts_at + slot.ends_at) / 2  # the slot's start or end may be at a clock change
    return {
        "starts_at": slot.starts_at,
        "ends_at": slot.ends_at,
        "day": day_text(int((middle + offset_at(middle)) // _DAY_S)),
        **_sum_view([slot]),
    }


def _sum_view(slots: Sequence[Slot]) -> JSON:
    known_usd, unpriced_s = sum(slot.known_usd for slot in slots), sum(slot.unpriced_s for slot in slots)
    return {
        "usd": None if unpriced_s else known_usd,
        "known_usd": known_usd,
        "up_to_usd": sum(slot.up_to_usd for slot in slots),
        "ready_s": sum(slot.ready_s for slot in slots),
        "unpriced_s": unpriced_s,
        "unwatched_s": sum(slot.unwatched_s for slot in slots),
    }
