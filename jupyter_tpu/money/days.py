"""Calendar days in UTC, as ``YYYY-MM-DD`` text and as day numbers for calculations (day 0 is 1970-01-01)."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable

from jupyter_tpu.errors import BadInput, Text

OffsetAt = Callable[[float], float]
"""Returns how many seconds the user's wall clock is ahead of UTC at a time in Unix seconds."""

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DAY_S = 86_400
_EPOCH = datetime.date(1970, 1, 1)
# Google's first TPUs ran in 2015; a year beyond 2100 is a typo.
_FIRST_YEAR, _LAST_YEAR = 2015, 2100


def day_number(text: object, what: str = "day") -> int:
    """Return the day number for a day entered by a user.

    Args:
        what: the name of the day in the error message.

    Raises:
        BadInput: the text is not a valid day, or its year is out of range.
    """
    # check the pattern first, because Python also accepts other forms of ISO 8601
    if not isinstance(text, str) or not _DAY.fullmatch(text):
        raise _no_day(text, what)
    try:
        found = datetime.date.fromisoformat(text)
    except ValueError as error:
        raise _no_day(text, what) from error
    if not _FIRST_YEAR <= found.year <= _LAST_YEAR:
        raise _no_day(text, what)
    return (found - _EPOCH).days


def day_of(at: float) -> int:
    """Return the number of the UTC day that contains a time in Unix seconds."""
    return int(at // _DAY_S)


def began_at(day: int) -> float:
    """Return when a day begins in UTC, in Unix seconds."""
    return float(day * _DAY_S)


def wall_moment(wall_s: float, offset_at: OffsetAt) -> float:
    """Return the Unix seconds at which the wall clock shows `wall_s`.

    `wall_s` is a wall time, counted in seconds as if it were UTC.

    The offset from UTC depends on the result, so it is determined in two steps. This is sufficient because clock
    changes are at most a few hours.
    """
    return wall_s - offset_at(wall_s - offset_at(wall_s))


def day_text(day: int) -> str:
    """Format a day number as ``2026-11-01``."""
    return (_EPOCH + datetime.timedelta(days=day)).isoformat()


def _no_day(text: object, what: str) -> BadInput:
    return BadInput(
        Text("{value} is not a valid {what}.", value=repr(str(text)[:40]), what=what),
        exists="Nothing was saved.",
        hint=Text("Use YYYY-MM-DD, such as 2026-11-01, from {first} to {last}.", first=_FIRST_YEAR, last=_LAST_YEAR),
    )
