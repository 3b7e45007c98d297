"""What the guard of a node saw in the last hour, as JSON for the REST API."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

JSON = dict[str, Any]

OLDER = "the agent on the node is older than this question"
NO_LINK = "the node cannot be asked now"
_NONSENSE = "the answer of the agent on the node is invalid"
_VERDICTS = ("busy", "idle", "unknown")
_LONGEST_TEXT = 500


def past_view(said: Mapping[str, Any] | str, *, idle_after_s: float | None, now: float) -> JSON:
    """Stretches of time, the oldest first.

    Args:
        said: by the agent; or why nothing is known.
        idle_after_s: by the rule that holds now; None: the node does not end when it is idle.
        now: when that was said; the agent tells only how long ago things were.
    """
    why, stretches = said if isinstance(said, str) else "", list[JSON]()
    if not isinstance(said, str):
        try:
            stretches = [_stretch(each, now) for each in said["past"]]
        except KeyError:
            why = OLDER if "past" not in said else _NONSENSE
        except (TypeError, ValueError, AttributeError):
            why = _NONSENSE
    return {"now": now, "idle_after_s": idle_after_s, "why_unknown": why or None, "stretches": stretches}


def _stretch(said: Mapping[str, Any], now: float) -> JSON:
    if said["verdict"] not in _VERDICTS:
        raise ValueError(said["verdict"])
    quiet_s = said["quiet_s"]
    return {
        "verdict": said["verdict"],
        "sources": [str(source)[:_LONGEST_TEXT] for source in said["sources"]],
        "detail": str(said["detail"])[:_LONGEST_TEXT],
        "starts_at": now - _seconds(said["began_s"]),
        "ends_at": now - _seconds(said["ended_s"]),
        "quiet_since": None if quiet_s is None else now - _seconds(quiet_s),
    }


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(value)
    return float(value)
