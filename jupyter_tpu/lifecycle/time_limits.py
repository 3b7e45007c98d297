"""The time limits of an intent's steps, in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The time limits of an intent.

    Attributes:
        unsure_s: how long a node that should exist may be missing from the cloud's lists, or a deleted node may still
            be listed. The cloud updates its lists with a delay.
        vanished_s: how long a node that was seen before may be missing.
        create_s: the maximum time from the request until the node is READY.
        boot_s: the maximum time from READY until the workers have published their host keys.
        change_s: the maximum time for a deletion or a stop.
        ask_again_s: the time after which a deletion or stop request without a response is repeated.
    """

    # Google documents none of these limits. Limits without a source here are our own choice.

    # the longest time for which a list may be out of date
    unsure_s: float = 60.0
    # a few polls of 1 s, so that one stale response has no effect
    vanished_s: float = 5.0
    # gcloud gives up on an operation after 30 min too (api_lib/util/waiter.py)
    create_s: float = 1800.0
    boot_s: float = 600.0
    change_s: float = 900.0
    ask_again_s: float = 10.0
