"""Checks of single values that the control API is asked with; each raises ValueError for one of another kind."""

from __future__ import annotations

_TOO_MUCH = 10**9


def text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    value.encode()  # half a character cannot be sent back
    return value


def whole(value: object) -> int:
    """0, 1, 2, …"""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _TOO_MUCH:
        raise ValueError(f"{value!r} is not a whole number, at least 0")
    return value


def counting(value: object) -> int:
    """1, 2, 3, …"""
    if whole(value) == 0:
        raise ValueError("0 is not a number of times")
    return whole(value)


def amount(value: object) -> float:
    """0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _TOO_MUCH:
        raise ValueError(f"{value!r} is not a number, at least 0")
    return float(value)


def positive(value: object) -> float:
    """More than 0."""
    if amount(value) == 0:
        raise ValueError("0 is not a positive number")
    return amount(value)
