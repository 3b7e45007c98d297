"""The agent's auto-stop report as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jupyter_tpu.autostop import Reminder
from jupyter_tpu.durations import duration_text

_IN_USE = {"busy": "In use", "unknown": "Activity unknown (treated as busy)"}
# Both times are measured by the agent in one call, so they differ by rounding only.
_SAME_S = 1.0


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """Format the agent's report; the cell that asks is counted as one of the running cells."""
    return [*source_lines(report), *end_lines(report)]


def extend_lines(report: Mapping[str, Any]) -> list[str]:
    """Format the report after a ``keep``, which may have extended nothing."""
    keep = report["keep"]
    is_kept = keep["for_s"] is not None or keep["while_busy"]
    return [*report_lines(report), *([] if is_kept else ["Extension cancelled."])]


def source_lines(report: Mapping[str, Any]) -> list[str]:
    """Return one line for each kind of activity, with the time since the last one."""
    return [f"{name}: {_source(source)}" for name, source in report["sources"].items()]


def reminder_line(report: Mapping[str, Any], usd: float | None) -> str:
    """Return the reminder that an unused node is billed, with what to do; empty if none is due.

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
