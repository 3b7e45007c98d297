"""The time limits of an intent's steps, in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Time limits of an intent.

    Attributes:
        unsure_s: how long a node that should exist may be missing, or one that should be gone may be listed: the
            cloud's lists lag behind its changes.
        vanished_s: the same for a node that was seen before.
        create_s: from the request until the node is READY.
        boot_s: from READY until the workers have published their host keys.
        change_s: for a deletion or a stop.
        ask_again_s: between two requests for a deletion or a stop that got no answer.
    """

    # Google states none of these; where no source is named they are our own bounds.

    # the longest lag of a list that we allow for
    unsure_s: float = 60.0
    # a few polls of 1 s, so that one stale answer ends nothing
    vanished_s: float = 5.0
    # gcloud gives up on an operation after 30 min too (api_lib/util/waiter.py)
    create_s: float = 1800.0
    boot_s: float = 600.0
    change_s: float = 900.0
    ask_again_s: float = 10.0
