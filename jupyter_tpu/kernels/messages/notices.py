"""What is told of a kernel in the notebook, for events that stand between its messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def event_words(event: Mapping[str, Any]) -> str | None:
    """The words for a user, or None for an event that needs none where output is shown."""
    kind = event.get("event")
    if kind in ("disk_full", "checkpoint_hook", "words"):
        return f"[{event.get('message')}]"
    if kind == "restart_refused":
        return f"[The kernel was not restarted and keeps running: {_message_of(event.get('error'))}]"
    if kind == "cut":
        return f"[{_count(event)} messages of this kernel are no longer kept on the worker]"
    if kind == "too_large":
        return f"[Message {event.get('seq')} of this kernel ({_mib(event)} MiB) was left out; it is kept on the node]"
    if kind == "unreadable":
        return f"[Message {event.get('seq')} of this kernel is not readable and was left out; it is kept on the node]"
    if kind == "gap":
        return (
            f"[{_number(event.get('messages'))} of this kernel were lost: {event.get('reason', 'no reason is known')}]"
        )
    return None


def unreadable_event(seq: int) -> dict[str, Any]:
    """The event for a message of the record that could not be passed on."""
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
