"""``%tpu extend`` and ``%tpu idle``: what the guard of this node is asked, and what it tells."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_tpu.brakes import Reminder, span_text
from jupyter_tpu.errors import BadInput

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_HOW = "Use %tpu extend 1h, %tpu extend until 18:00, %tpu extend while-busy or %tpu extend off."


def parse_keep(words: Sequence[str], now: float) -> dict[str, Any]:
    """The parameters of the agent's method ``keep``.

    Raises:
        BadInput: the words say nothing that we know.
    """
    return _keep(list(words) or ["1h"], now)


def _keep(words: list[str], now: float) -> dict[str, Any]:
    if words == ["off"]:
        return {}
    if words == ["while-busy"]:
        return {"while_busy": True}
    if len(words) == 2 and words[0] == "until":
        return {"until": _next_time(words[1], now)}
    if len(words) == 1 and (found := re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(s|m|min|h|d)", words[0])):
        return {"for_s": float(found[1]) * _SECONDS[found[2]]}
    raise BadInput(f"{' '.join(words)[:60]!r} does not say for how long.", hint=_HOW)


def _next_time(text: str, now: float) -> float:
    """By the clock and the time zone of the node, which is UTC unless someone has changed it."""
    found = re.fullmatch(r"([01]?[0-9]|2[0-3]):([0-5][0-9])", text)
    if not found:
        raise BadInput(f"{text[:40]!r} is no time of a day.", hint=_HOW)
    today = datetime.datetime.fromtimestamp(now)
    wanted = today.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
    if wanted.timestamp() <= now:
        wanted += datetime.timedelta(days=1)
    return wanted.timestamp()


def told(said: Mapping[str, Any]) -> list[str]:
    """What the agent says of this node, in lines for people. This cell is one of those that run."""
    return [*source_lines(said), *end_lines(said)]


def kept(said: Mapping[str, Any]) -> list[str]:
    """The same after a wish to keep it, which may have been one for no time at all."""
    keep = said["keep"]
    is_kept = keep["for_s"] is not None or keep["while_busy"]
    return [*told(said), *([] if is_kept else ["Nothing keeps it now."])]


def source_lines(said: Mapping[str, Any]) -> list[str]:
    """What is active, and since when it is not."""
    return [f"{name}: {_source(source)}" for name, source in said["sources"].items()]


def reminder_line(said: Mapping[str, Any], usd: float | None) -> str:
    """That the node is billed though nobody acts, and what to do; empty where that is not due, or not known of."""
    due = said.get("reminder")
    if not due:
        return ""
    text = Reminder(since=0.0, for_s=due["for_s"], days=due["days"], usd=usd).text("This node")
    return f"{text} Keep it running: %tpu extend. Stop it: %tpu stop."


def end_lines(said: Mapping[str, Any]) -> list[str]:
    """When the node ends, who keeps it, and whether its guard can end it."""
    rules, keep, guard = said["rules"], said["keep"], said["guard"]
    idle_s = rules["idle_after_s"]
    idle = "No idle rule ends this node" if idle_s is None else f"This node ends after {span_text(idle_s)} idle"
    unattended_s = None if idle_s is None else rules.get("unattended_after_s")
    unattended = "" if unattended_s is None else f", or {span_text(unattended_s)} after a running cell fell silent"
    lines = [f"{idle}{unattended}; session: {_length(rules['session_s'])}."]
    if said["ends_in_s"] is not None:
        lines.append(f"As things are it ends in {span_text(said['ends_in_s'])} ({said['ends_why']}).")
    if keep["for_s"] is not None:
        lines.append(f"It is kept for {span_text(keep['for_s'])}.")
    if keep["while_busy"]:
        lines.append("It is kept until what runs now has ended.")
    return [*lines, f"Guard: {guard['state']} ({guard['detail']})."]


def _source(source: Mapping[str, Any]) -> str:
    age = "" if source["age_s"] is None else f", last {span_text(source['age_s'])} ago"
    detail = f" ({source['detail']})" if source["detail"] else ""
    return f"{source['state']}{age}{detail}"


def _length(length_s: float | None) -> str:
    return "no limit" if length_s is None else span_text(length_s)
