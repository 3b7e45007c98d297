"""How the commands word times, money and limits for people."""

from __future__ import annotations

from datetime import UTC, datetime

NANOS = 10**9


def last_part(name: str) -> str:
    """The id in a resource name."""
    return name.rpartition("/")[2]


def moment_words(moment: float) -> str:
    """``2026-11-21 22:00:00 UTC``, of virtual seconds since the epoch."""
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S} UTC"


def duration_words(seconds: float) -> str:
    """``1:02:05``"""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def money_words(nano_usd: int | None) -> str:
    """``$1.234567891``, to the nano-dollar; what is not known is said to be so."""
    return "unknown" if nano_usd is None else f"${nano_usd // NANOS}.{nano_usd % NANOS:09}"


def price_words(usd_per_hour: float | None) -> str:
    return "unknown" if usd_per_hour is None else f"${usd_per_hour:.4f}/h"


def counted(number: int, thing: str) -> str:
    """``1 node``, ``2 nodes``"""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def chips_words(chips: int | None) -> str:
    return "unlimited" if chips is None else f"{chips} chips"


def limit_words(limit: int) -> str:
    return "unlimited" if limit < 0 else str(limit)
