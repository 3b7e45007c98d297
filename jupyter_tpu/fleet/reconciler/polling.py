"""Polling intervals for the cloud's nodes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Polling:
    """The polling intervals, in seconds.

    Attributes:
        open_s: the interval while an intent is open; also the interval at which the fleet's loop calls controllers.
        idle_s: the interval while no change is in progress.
    """

    # the same interval as gcloud's first one (api_lib/util/waiter.py)
    open_s: float = 1.0
    # our choice: with a longer interval, changes by others are noticed later; with a shorter interval, more API calls
    # count towards the quota
    idle_s: float = 15.0
