"""Answers for cells that no kernel will run: an error, the status idle and a reply, as from a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jupyter_tpu.agent.recording.jupyter_messages import header_place, is_execute_request, json_object
from jupyter_tpu.errors import TpuError, error_from_json

NOT_RUN = "not_run"


class Answer(NamedTuple):
    """One message in answer to a cell that was not run."""

    channel: str
    msg_type: str
    content: dict[str, Any]


def not_run(parts: Sequence[bytes], error: TpuError) -> dict[str, Any] | None:
    """Return the event for an execute request that was not sent to the kernel; None for any other message.

    Args:
        parts: the request, routing identities first.
        error: why it was not sent.
    """
    if not is_execute_request(parts):
        return None
    place = header_place(parts)
    identities = [part.hex() for part in parts[: place - 2]]
    return {"event": NOT_RUN, "asked": identities, "header": json_object(parts[place]), "error": error.to_json()}


def routing_identities(event: Mapping[str, Any]) -> list[bytes]:
    """Return the routing identities of the request in a `not_run` event."""
    return [bytes.fromhex(part) for part in event["asked"]]


def answers(event: Mapping[str, Any]) -> tuple[Answer, ...]:
    """Return the messages that answer the cell of a `not_run` event; their parent is the event's ``header``."""
    error = error_from_json(event["error"])
    content = {
        "ename": type(error).__name__,
        "evalue": error.message,
        "traceback": ["The cell was not run.", *str(error).splitlines()],
    }
    # The reply last: a client may stop reading once it has it.
    return (
        Answer("iopub", "error", content),
        Answer("iopub", "status", {"execution_state": "idle"}),
        Answer("shell", "execute_reply", {"status": "error", **content}),
    )
