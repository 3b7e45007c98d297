"""Formats times, money and limits for the command line."""

from __future__ import annotations

from datetime import UTC, datetime

NANOS = 10**9  # nano-dollars per dollar


def last_part(name: str) -> str:
    """Return the id in a resource name."""
    return name.rpartition("/")[2]


def format_moment(moment: float) -> str:
    """Return ``2026-11-21 22:00:00 UTC`` for virtual seconds since the epoch."""
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S} UTC"


def format_duration(seconds: float) -> str:
    """Return a duration such as ``1:02:05``."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def format_money(nano_usd: int | None) -> str:
    """Return ``$1.234567891``, to the nano-dollar; None is unknown."""
    return "unknown" if nano_usd is None else f"${nano_usd // NANOS}.{nano_usd % NANOS:09}"


def format_price(usd_per_hour: float | None) -> str:
    """Return a price such as ``$4.8000/h``; None is unknown."""
    return "unknown" if usd_per_hour is None else f"${usd_per_hour:.4f}/h"


def counted(number: int, thing: str) -> str:
    """Return a number with its noun: ``1 node``, ``2 nodes``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def format_chips(chips: int | None) -> str:
    """Return a number of chips; None is unlimited."""
    return "unlimited" if chips is None else f"{chips} chips"


def format_limit(limit: int) -> str:
    """Return a limit; a negative one is unlimited."""
    return "unlimited" if limit < 0 else str(limit)
