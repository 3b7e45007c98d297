"""Checks of the fields that the control API receives; each raises ValueError for an invalid value."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

Check = Callable[[object], Any]

_TOO_MUCH = 10**9  # our choice; larger numbers are typos, and sums of smaller numbers are exact
FASTEST = 100_000  # virtual seconds per real second: a day takes less than a second


def text(value: object) -> str:
    """Check that a value is a string."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a string")
    value.encode()  # raises for half a surrogate pair, which a response could not contain
    return value


def number(value: str) -> int:
    """Parse a query parameter that is a whole number."""
    if not (value.isascii() and value.isdigit()):
        raise ValueError(f"{value[:20]!r} is not a whole number of at least 0")
    return whole(int(value[:20]))


def flag(value: object) -> bool:
    """Check that a value is a boolean."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def whole(value: object) -> int:
    """Check that a value is a whole number and at least 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a whole number of at least 0")
    _check_size(value)
    return value


def _check_size(value: float) -> None:
    if abs(value) >= _TOO_MUCH:
        raise ValueError(f"{value!r} is too large: the limit is {_TOO_MUCH}")


def counting(value: object) -> int:
    """Check that a value is a whole number and at least 1."""
    if whole(value) == 0:
        raise ValueError("must be at least 1")
    return whole(value)


def amount(value: object) -> float:
    """Check that a value is a number and at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ValueError(f"{value!r} is not a number of at least 0")
    _check_size(value)
    return float(value)


def positive(value: object) -> float:
    """Check that a value is a number greater than 0."""
    if amount(value) == 0:
        raise ValueError("0 is not a positive number")
    return amount(value)


def difference(value: object) -> float:
    """Check that a value is a number, which may be negative."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -math.inf <= value <= math.inf:
        raise ValueError(f"{value!r} is not a number")
    _check_size(value)
    return float(value)


def fraction(value: object) -> float:
    """Check that a value is a number greater than 0 and at most 1."""
    if not 0 < amount(value) <= 1:
        raise ValueError(f"{value!r} must be more than 0 and at most 1")
    return amount(value)


def scale(value: object) -> float:
    """Check that a value is a valid time scale (virtual seconds per real second)."""
    if positive(value) > FASTEST:
        raise ValueError(f"{value!r} is more than {FASTEST}")
    return positive(value)


def items(value: object) -> list[Any]:
    """Check that a value is a list."""
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is not a list")
    return value


def optional(check: Check) -> Check:
    """Return a check that accepts None and otherwise applies the given check."""
    return lambda value: None if value is None else check(value)


def checked(data: Mapping[str, Any], checks: Mapping[str, Check], required: Collection[str] = ()) -> dict[str, Any]:
    """Return all values, each checked according to its name.

    Raises:
        ValueError: the message names the invalid, missing or unknown field.
    """
    for name in data:
        # reject it, because a misspelt field would otherwise be silently ignored
        if name not in checks:
            raise ValueError(f"unknown field {name[:50]!r}; fields: {', '.join(checks) or 'none'}")
    for name in required:
        if name not in data:
            raise ValueError(f"{name} is missing")
    return {name: _checked(name, checks[name], value) for name, value in data.items()}


def _checked(name: str, check: Check, value: object) -> Any:
    try:
        return check(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
