"""``%tpu keep`` and ``%tpu idle``: what the guard of this node is asked, and what it tells."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.brakes import span_text
from jupyter_tpu.errors import BadInput

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_HOW = "Use %tpu keep 1h, %tpu keep until 18:00, %tpu keep while-busy, %tpu keep off or %tpu idle."


def parse_tpu(line: str, now: float) -> tuple[str, dict[str, Any]]:
    """The agent's method and its parameters.

    Raises:
        BadInput: the line says nothing that we know.
    """
    words = line.split()
    if words == ["idle"]:
        return "activity", {}
    if not words or words[0] != "keep":
        raise BadInput(f"%tpu does not know {line.strip()[:60]!r}.", hint=_HOW)
    return "keep", _keep(words[1:] or ["1h"], now)


def _keep(words: list[str], now: float) -> dict[str, Any]:
    if words == ["off"]:
        return {}
    if words == ["while-busy"]:
        return {"while_busy": True}
    if len(words) == 2 and words[0] == "until":
        return {"until": _next_time(words[1], now)}
    if len(words) == 1 and (found := re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)(s|m|min|h|d)", words[0])):
        return {"for_s": float(found[1]) * _SECONDS[found[2]]}
    raise BadInput(f"{' '.join(words)[:60]!r} does not say for how long.", hint=_HOW)


def _next_time(text: str, now: float) -> float:
    """By the clock and the time zone of the node, which is UTC unless somebody has set it."""
    found = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", text)
    if not found:
        raise BadInput(f"{text[:40]!r} is no time of a day.", hint=_HOW)
    today = datetime.datetime.fromtimestamp(now)
    wanted = today.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
    if wanted.timestamp() <= now:
        wanted += datetime.timedelta(days=1)
    return wanted.timestamp()


def told(said: Mapping[str, Any]) -> str:
    """What the agent says of this node, in lines for people. This cell is one of those that run."""
    rules, keep, guard = said["rules"], said["keep"], said["guard"]
    lines = [f"{name}: {_source(source)}" for name, source in said["sources"].items()]
    lines.append(f"This node ends after {_length(rules['idle_after_s'])} idle; session: {_length(rules['session_s'])}.")
    if said["ends_in_s"] is not None:
        lines.append(f"As things are it ends in {span_text(said['ends_in_s'])} ({said['ends_why']}).")
    if keep["for_s"] is not None:
        lines.append(f"It is kept for {span_text(keep['for_s'])}.")
    if keep["while_busy"]:
        lines.append("It is kept until what runs now has ended.")
    lines.append(f"Guard: {guard['state']} ({guard['detail']}).")
    return "\n".join(lines)


def _source(source: Mapping[str, Any]) -> str:
    age = "" if source["age_s"] is None else f", last {span_text(source['age_s'])} ago"
    detail = f" ({source['detail']})" if source["detail"] else ""
    return f"{source['state']}{age}{detail}"


def _length(length_s: float | None) -> str:
    return "no limit" if length_s is None else span_text(length_s)


def text_now(line: str, ask: Any) -> str:
    """Perform a line of ``%tpu``; `ask` calls the agent."""
    method, params = parse_tpu(line, time.time())
    return told(ask(method, params))
