"""Durations as people type them: 30m, 6h, 2d."""

from __future__ import annotations

import re

from jupyter_tpu.errors import BadInput

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


def seconds(text: str, option: str) -> float:
    """Parse ``90s``, ``30m``, ``1.5h`` or ``2d`` and return the seconds.

    Args:
        text: what the user typed.
        option: the option that it was typed for, which an error names.

    Raises:
        BadInput: the text is not a duration, or is 0.
    """
    # at most nine digits, so that no number gets too large for a float or a date
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)\s*(s|m|min|h|d)", text.strip())
    amount = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if not amount:
        raise BadInput(
            f"{text[:40]!r} is not a duration.",
            exists="No request was sent to the cloud.",
            hint=f"Write {option} 30m, 6h or 2d.",
        )
    return amount
