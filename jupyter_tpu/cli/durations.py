"""Durations as people write them."""

from __future__ import annotations

import re

from jupyter_tpu.errors import BadInput

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


def seconds(text: str, option: str) -> float:
    """``90s``, ``30m``, ``1.5h``, ``2d`` in seconds.

    Raises:
        BadInput: it is no such text, or not above 0; names `option`.
    """
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)\s*(s|m|min|h|d)", text.strip())
    amount = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if not amount:
        raise BadInput(
            f"{text[:40]!r} is not a duration.",
            exists="Nothing was asked of the cloud.",
            hint=f"Write {option} 30m, 6h or 2d.",
        )
    return amount
