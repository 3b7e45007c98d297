"""The history of a node's last hour, recorded by its guard, as JSON for the REST API. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

JSON = dict[str, Any]

OLDER = "the agent on the node is too old to report this"
NO_LINK = "there is no connection to the node now"
_NONSENSE = "the agent on the node sent an invalid response"
_VERDICTS = ("busy", "idle", "unknown")
# maximum length of a text from the node, which isn't trusted
_LONGEST_TEXT = 500


def activity_history_view(response: Mapping[str, Any] | str, *, idle_after_s: float | None, now: float) -> JSON:
    """Return the history as intervals, oldest first; the guard's verdict does not change within an interval.

    Args:
        response: the agent's response, or display text with the reason why there is none.
        idle_after_s: the current idle timeout in seconds, or None.
        now: when the response arrived (Unix seconds); the agent sends ages, because its clock may differ.
    """
    why, stretches = response if isinstance(response, str) else "", list[JSON]()
    if not isinstance(response, str):
        try:
            stretches = [_stretch(each, now) for each in response["past"]]
        except KeyError:
            why = OLDER if "past" not in response else _NONSENSE
        except (TypeError, ValueError, AttributeError):
            why = _NONSENSE
    return {"now": now, "idle_after_s": idle_after_s, "why_unknown": why or None, "stretches": stretches}


def _stretch(reported: Mapping[str, Any], now: float) -> JSON:
    if reported["verdict"] not in _VERDICTS:
        raise ValueError(reported["verdict"])
    quiet_s = reported["quiet_s"]
    return {
        "verdict": reported["verdict"],
        "sources": [str(source)[:_LONGEST_TEXT] for source in reported["sources"]],
        "detail": str(reported["detail"])[:_LONGEST_TEXT],
        "starts_at": now - _seconds(reported["began_s"]),
        "ends_at": now - _seconds(reported["ended_s"]),
        "quiet_since": None if quiet_s is None else now - _seconds(quiet_s),
    }


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(value)
    return float(value)
