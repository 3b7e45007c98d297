"""How often the cloud is asked for the nodes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Polling:
    """How often the cloud is polled, in seconds.

    Attributes:
        open_s: while an intent is open; also the fleet's turn, in which controllers run.
        idle_s: while nothing is being changed.
    """

    # gcloud too begins with a poll after 1 s (api_lib/util/waiter.py)
    open_s: float = 1.0
    # our choice: how late a change by others is noticed, against calls that count towards the API's quota
    idle_s: float = 15.0
