"""Calendar days in UTC, as text ``YYYY-MM-DD`` and as day numbers to compute with (day 0 is 1970-01-01)."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable

from jupyter_tpu.errors import BadInput, Text

OffsetAt = Callable[[float], float]
"""Returns by how many seconds the user's wall clock is ahead of UTC at a time in Unix seconds."""

_DAY = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DAY_S = 86_400
# Google's first TPUs ran in 2015; a year beyond 2100 is a typing error.
_FIRST_YEAR, _LAST_YEAR = 2015, 2100


def day_number(text: object, what: str = "day") -> int:
    """Return the number of a day that a user wrote.

    Args:
        what: what the error message calls the day.

    Raises:
        BadInput: the text is not a day, or its year is out of range.
    """
    match = _DAY.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise _no_day(text, what)
    year, month, day = (int(part) for part in match.groups())
    if not (_FIRST_YEAR <= year <= _LAST_YEAR and 1 <= month <= 12):
        raise _no_day(text, what)
    if not 1 <= day <= calendar.monthrange(year, month)[1]:
        raise _no_day(text, what)
    return calendar.timegm((year, month, day, 0, 0, 0)) // _DAY_S


def day_of(at: float) -> int:
    """Return the number of the day in UTC that contains a time in Unix seconds."""
    return int(at // _DAY_S)


def began_at(day: int) -> float:
    """Return when a day begins in UTC, in Unix seconds."""
    return float(day * _DAY_S)


def wall_moment(wall_s: float, offset_at: OffsetAt) -> float:
    """Return the Unix seconds at which the wall clock shows `wall_s` (counted as if it were UTC).

    The offset depends on the result, so it is found in two steps; that is enough, since clocks change by hours at most.
    """
    return wall_s - offset_at(wall_s - offset_at(wall_s))


def day_text(day: int) -> str:
    """Format a day number as ``2026-11-01``."""
    year = 1970 + day // 366  # a year has at most 366 days, so this is never too late; the loop advances it
    while day >= _new_year(year + 1):
        year += 1
    rest, month = day - _new_year(year), 1
    while rest >= (length := calendar.monthrange(year, month)[1]):
        rest -= length
        month += 1
    return f"{year:04}-{month:02}-{rest + 1:02}"


def _new_year(year: int) -> int:
    return calendar.timegm((year, 1, 1, 0, 0, 0)) // _DAY_S


def _no_day(text: object, what: str) -> BadInput:
    return BadInput(
        Text("{value} is not a {what}.", value=repr(str(text)[:40]), what=what),
        exists="Nothing was saved.",
        hint=Text("Use YYYY-MM-DD, such as 2026-11-01, from {first} to {last}.", first=_FIRST_YEAR, last=_LAST_YEAR),
    )
