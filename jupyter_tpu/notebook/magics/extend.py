"""Format the agent's auto-stop report as lines of text. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jupyter_tpu.autostop import Reminder
from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import Text

_IN_USE = {
    ("busy", "stop"): Text("In use: auto-stop {duration} after it becomes idle."),
    ("busy", "delete"): Text("In use: auto-delete {duration} after it becomes idle."),
    ("unknown", "stop"): Text("Activity unknown (treated as busy): auto-stop {duration} after it becomes idle."),
    ("unknown", "delete"): Text("Activity unknown (treated as busy): auto-delete {duration} after it becomes idle."),
}
_WORDS = {
    "execution": Text("running cells"),
    "accelerator": Text("chip use"),
    "human": Text("your activity"),
    "output": Text("output"),
    "connection": Text("connection"),
    "cpu": Text("CPU time"),
    "active": Text("active"),
    "idle": Text("idle"),
    "unknown": Text("unknown"),
    "session": Text("maximum session length"),
    "deadline": Text("deadline"),
    "armed": Text("on"),
    "off": Text("off"),
    "cannot": Text("can't stop the node"),
}
"""Display names for the agent's report; its details remain in English."""
# Times that differ by less than this count as the same: the agent measures both in one call, so only rounding makes
# them differ.
_SAME_S = 1.0


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """Format the agent's report; the cell with the magic counts as one of the running cells."""
    return [*source_lines(report), *end_lines(report)]


def extend_lines(report: Mapping[str, Any]) -> list[str]:
    """Format the report after a ``keep`` request, with a note if the extension is now cancelled."""
    keep = report["keep"]
    is_kept = keep["for_s"] is not None or keep["while_busy"]
    return [*report_lines(report), *([] if is_kept else [Text("Extension cancelled.")])]


def source_lines(report: Mapping[str, Any]) -> list[str]:
    """Return one line for each kind of activity, with the time since the last activity."""
    return [
        Text("{topic}: {text}", topic=_WORDS.get(name, name), text=_source(source))
        for name, source in report["sources"].items()
    ]


def reminder_line(report: Mapping[str, Any], usd: float | None) -> str:
    """Return the reminder that an unused node is billed, and what to do, or an empty string if none is due.

    Older agents never report a reminder.
    """
    due = report.get("reminder")
    if not due:
        return ""
    text = Reminder(since=0.0, for_s=due["for_s"], days=due["days"], usd=usd).text(Text("This node"))
    return Text("{reminder} Keep it running: `%tpu extend`. Stop it: `%tpu stop`.", reminder=text)


def end_lines(report: Mapping[str, Any]) -> list[str]:
    """Return lines that say when the node will stop, whether it is kept running, and whether its guard can stop it."""
    rules, keep, guard = report["rules"], report["keep"], report["guard"]
    idle_s = rules["idle_after_s"]
    # Only the idle rule treats an unattended cell as idle; older agents do not send this limit.
    unattended_s = rules.get("unattended_after_s")
    if idle_s is None or unattended_s is None or unattended_s <= idle_s:
        unattended_s = None  # the longer of the two limits applies, see `autostop.judge`
    lines: list[str] = [_rules_line(idle_s, unattended_s, rules["session_s"])]
    ends_in_s, kept_s = report["ends_in_s"], keep["for_s"]
    is_last = ends_in_s is not None and kept_s is not None and abs(ends_in_s - kept_s) < _SAME_S
    if is_last:  # show one time instead of two that look contradictory
        last = Text("The node keeps running for {duration}, then auto-stop stops it ({reason}).")
        lines.append(last.with_arguments(duration=duration_text(kept_s), reason=_word(report["ends_why"])))
    elif ends_in_s is not None:
        why = _word(report["ends_why"])
        lines.append(Text("Auto-stop in {duration} ({reason}).", duration=duration_text(ends_in_s), reason=why))
    elif idle_s is not None and report.get("verdict") in ("busy", "unknown"):
        lines.append(_IN_USE[report["verdict"], rules["action"]].with_arguments(duration=duration_text(idle_s)))
    if kept_s is not None and not is_last:
        lines.append(Text("The node keeps running for {duration}.", duration=duration_text(kept_s)))
    if keep["while_busy"]:
        lines.append(Text("The node keeps running until the current cell ends."))
    return [*lines, Text("Guard: {state} ({detail}).", state=_word(guard["state"]), detail=guard["detail"])]


def _rules_line(idle_s: float | None, unattended_s: float | None, session_s: float | None) -> Text:
    session = Text("no limit") if session_s is None else duration_text(session_s)
    if idle_s is None:
        return Text("No idle timeout; maximum session length: {session}.", session=session)
    if unattended_s is None:
        return Text(
            "Idle timeout: {idle}; maximum session length: {session}.", idle=duration_text(idle_s), session=session
        )
    return Text(
        "Idle timeout: {idle}, or {unattended} while an unattended cell runs; maximum session length: {session}.",
        idle=duration_text(idle_s),
        unattended=duration_text(unattended_s),
        session=session,
    )


def _source(source: Mapping[str, Any]) -> str:
    state, age_s, detail = _word(source["state"]), source["age_s"], source["detail"]
    since = state if age_s is None else Text("{state}, last activity {age} ago", state=state, age=duration_text(age_s))
    return Text("{text} ({detail})", text=since, detail=detail) if detail else since


def _word(word: str) -> str:
    return _WORDS.get(word, str(word))
