"""Create notices for the notebook's user about events in a kernel's record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def event_notice(event: Mapping[str, Any]) -> str | None:
    """Return the notice for an event, or None if the event is not shown in the notebook."""
    kind = event.get("event")
    # These events contain their own text. Brackets distinguish a notice from the cell's output.
    if kind in ("disk_full", "checkpoint_hook", "words"):
        return f"[{event.get('message')}]"
    if kind == "restart_refused":
        return f"[The kernel was not restarted and keeps running: {_message_of(event.get('error'))}]"
    if kind == "cut":
        return f"[{_count(event)} messages of this kernel are no longer stored on the worker]"
    if kind == "too_large":
        name = f"Message {event.get('seq')} of this kernel ({_mib(event)} MiB)"
        return f"[{name} is too large to show; it is stored on the node]"
    if kind == "unreadable":
        return f"[Message {event.get('seq')} of this kernel cannot be shown; it is stored on the node]"
    if kind == "gap":
        return f"[{_number(event.get('messages'))} of this kernel were lost: {event.get('reason', 'reason unknown')}]"
    return None


def unreadable_event(seq: int) -> dict[str, Any]:
    """Return an event that replaces an unreadable message in the record."""
    return {"event": "unreadable", "seq": seq}


def _message_of(error: Any) -> str:
    return str(error.get("message", "")) if isinstance(error, Mapping) else ""


def _mib(event: Mapping[str, Any]) -> int:
    size = event.get("bytes")
    return size >> 20 if isinstance(size, int) else 0


def _count(event: Mapping[str, Any]) -> int:
    first, last = event.get("first_seq"), event.get("last_seq")
    return last - first + 1 if isinstance(first, int) and isinstance(last, int) else 0


def _number(messages: Any) -> str:
    if not isinstance(messages, int):
        return "Some messages"
    return "One message" if messages == 1 else f"{messages} messages"
