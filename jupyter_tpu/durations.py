"""Parse and format durations and times of day for users. This module needs only Python 3.10."""

from __future__ import annotations

import datetime
import re

from jupyter_tpu.errors import Text

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
# at most nine digits, so that a number is never too large for a float or a date
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*(s|m|min|h|d)")
_TIME_OF_DAY = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


def parse_duration(text: str) -> float | None:
    """Convert ``90s``, ``30m``, ``1.5h`` or ``2d`` to seconds; return None if the text is not a duration."""
    found = _DURATION.fullmatch(text.strip())
    return float(found[1]) * _SECONDS[found[2]] if found else None


def parse_time_of_day(text: str, now: float) -> float | None:
    """Return when the clock next shows, for example, ``18:00``, or None if the text is not a time of day.

    `now` and the result are in Unix seconds.
    """
    found = _TIME_OF_DAY.fullmatch(text.strip())
    if found is None:
        return None
    # use a naive time, so that the time of day is correct on days when the clocks change
    wanted = datetime.datetime.fromtimestamp(now).replace(
        hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0
    )
    if wanted.timestamp() <= now:
        wanted += datetime.timedelta(days=1)
    return wanted.timestamp()


def duration_text(seconds: float) -> Text:
    """Format a duration: ``3 h 5 min``, ``2 h``, ``12 min``, ``40 s``."""
    whole = max(0, int(seconds))
    # Below two minutes, whole minutes would be too coarse for a countdown.
    if whole < 120:
        return Text("{seconds} s", seconds=whole)
    hours, minutes = divmod(whole // 60, 60)
    if not hours:
        return Text("{minutes} min", minutes=minutes)
    return Text("{hours} h {minutes} min", hours=hours, minutes=minutes) if minutes else Text("{hours} h", hours=hours)
