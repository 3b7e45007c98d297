"""The arguments of ``%tpu extend``, and the agent's auto-stop report as lines of text. Pure."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_tpu.autostop import Reminder, duration_text
from jupyter_tpu.errors import BadInput

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_HOW = "Use %tpu extend 1h, %tpu extend until 18:00, %tpu extend while-busy or %tpu extend off."
_IN_USE = {"busy": "In use", "unknown": "Activity unknown (treated as busy)"}
# Both times are measured by the agent in one call, so they differ by rounding only.
_SAME_S = 1.0


def parse_extend(words: Sequence[str], now: float) -> dict[str, Any]:
    """Return the parameters of the agent's method ``keep`` for the arguments of ``%tpu extend``.

    Raises:
        BadInput: they name no length of time.
    """
    return _parse(list(words) or ["1h"], now)


def _parse(words: list[str], now: float) -> dict[str, Any]:
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
    """Return the next time of day `text` in Unix seconds, by the node's time zone (UTC unless changed)."""
    found = re.fullmatch(r"([01]?[0-9]|2[0-3]):([0-5][0-9])", text)
    if not found:
        raise BadInput(f"{text[:40]!r} is not a time of day.", hint=_HOW)
    today = datetime.datetime.fromtimestamp(now)
    wanted = today.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
    if wanted.timestamp() <= now:
        wanted += datetime.timedelta(days=1)
    return wanted.timestamp()


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """Return the agent's report as lines of text; the cell that asks counts as one of the running ones."""
    return [*source_lines(report), *end_lines(report)]


def extend_lines(report: Mapping[str, Any]) -> list[str]:
    """Return the report after a ``keep``, which may have been for no time at all."""
    keep = report["keep"]
    is_kept = keep["for_s"] is not None or keep["while_busy"]
    return [*report_lines(report), *([] if is_kept else ["Extension cancelled."])]


def source_lines(report: Mapping[str, Any]) -> list[str]:
    """Return one line for each kind of activity, with the time since the last one."""
    return [f"{name}: {_source(source)}" for name, source in report["sources"].items()]


def reminder_line(report: Mapping[str, Any], usd: float | None) -> str:
    """Return the reminder that an unused node is billed, and what to do; empty if none is due.

    Agents of older versions never report one.
    """
    due = report.get("reminder")
    if not due:
        return ""
    text = Reminder(since=0.0, for_s=due["for_s"], days=due["days"], usd=usd).text("This node")
    return f"{text} Keep it running: %tpu extend. Stop it: %tpu stop."


def end_lines(report: Mapping[str, Any]) -> list[str]:
    """Return when the node ends, whether it is kept running, and whether its guard can end it."""
    rules, keep, guard = report["rules"], report["keep"], report["guard"]
    idle_s = rules["idle_after_s"]
    idle = "No idle timeout" if idle_s is None else f"Idle timeout: {duration_text(idle_s)}"
    # An unattended cell counts as idle only by the idle rule; agents of older versions do not send this limit.
    unattended_s = None if idle_s is None else rules.get("unattended_after_s")
    unattended = "" if unattended_s is None else f", or {duration_text(unattended_s)} of a silent, unattended cell"
    lines = [f"{idle}{unattended}; maximum session length: {_length(rules['session_s'])}."]
    ends_in_s, kept_s = report["ends_in_s"], keep["for_s"]
    is_last = ends_in_s is not None and kept_s is not None and abs(ends_in_s - kept_s) < _SAME_S
    if is_last:  # one time, not two that look like a contradiction
        lines.append(f"Kept running for {duration_text(kept_s)}, then auto-stop ({report['ends_why']}).")
    elif ends_in_s is not None:
        lines.append(f"Auto-stop in {duration_text(ends_in_s)} ({report['ends_why']}).")
    elif idle_s is not None and report.get("verdict") in _IN_USE:
        use, action = _IN_USE[report["verdict"]], f"auto-{rules['action']}"
        lines.append(f"{use}: {action} {duration_text(idle_s)} after it becomes idle.")
    if kept_s is not None and not is_last:
        lines.append(f"Kept running for {duration_text(kept_s)}.")
    if keep["while_busy"]:
        lines.append("Kept running until the current cell ends.")
    return [*lines, f"Guard: {guard['state']} ({guard['detail']})."]


def _source(source: Mapping[str, Any]) -> str:
    age = "" if source["age_s"] is None else f", last {duration_text(source['age_s'])} ago"
    detail = f" ({source['detail']})" if source["detail"] else ""
    return f"{source['state']}{age}{detail}"


def _length(length_s: float | None) -> str:
    return "no limit" if length_s is None else duration_text(length_s)
