"""Create the responses to a cell that no kernel will execute: an error, the status idle and a reply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jupyter_tpu.agent.recording.jupyter_messages import header_place, is_execute_request, json_object, text_of
from jupyter_tpu.errors import TpuError, error_from_json

NOT_RUN = "not_run"
"""The event for a cell that was not sent to the kernel."""
NODE_ENDED = "node_ended"
"""The event for a cell that was sent to the kernel, but has no reply because its node was stopped or deleted."""


class Answer(NamedTuple):
    """A message in response to a cell that no kernel executes."""

    channel: str
    msg_type: str
    content: dict[str, Any]


def not_run(parts: Sequence[bytes], error: TpuError) -> dict[str, Any] | None:
    """Return the event for an execute request that was not sent to the kernel, or None for any other message.

    Args:
        parts: the request, routing identities first.
        error: why the request was not sent.
    """
    if not is_execute_request(parts):
        return None
    place = header_place(parts)
    identities = [part.hex() for part in parts[: place - 2]]
    return {"event": NOT_RUN, "asked": identities, "header": json_object(parts[place]), "error": error.to_json()}


class OpenRequests:
    """The execute requests that were sent to a kernel and have no reply yet."""

    def __init__(self) -> None:
        self._sent: dict[str, Sequence[bytes]] = {}

    def add(self, parts: Sequence[bytes]) -> None:
        """Add a sent message if it is an execute request; ignore any other message."""
        if is_execute_request(parts):
            self._sent[text_of(json_object(parts[header_place(parts)]), "msg_id")] = parts

    def answered(self, parts: Sequence[bytes]) -> None:
        """Remove the request that this reply belongs to."""
        place = header_place(parts)
        if self._sent and place:  # most replies arrive while no cell is running
            self._sent.pop(text_of(json_object(parts[place + 1]), "msg_id"), None)

    def remove(self, requests: Iterable[Sequence[bytes]]) -> None:
        """Remove requests that this process has replied to."""
        for parts in requests:
            if place := header_place(parts):
                self._sent.pop(text_of(json_object(parts[place]), "msg_id"), None)

    def clear(self) -> None:
        """Remove all requests without replying to them."""
        self._sent.clear()

    def end(self, error: TpuError) -> list[dict[str, Any]]:
        """Remove all requests and return an event for each: the first with `error`, the others with "aborted"."""
        sent, self._sent = [*self._sent.values()], {}
        events = [event for parts in sent if (event := not_run(parts, error))]
        return [{**event, "event": NODE_ENDED, "is_first": number == 0} for number, event in enumerate(events)]


def routing_identities(event: Mapping[str, Any]) -> list[bytes]:
    """Return the routing identities of the request in a `not_run` event."""
    return [bytes.fromhex(part) for part in event["asked"]]


def answers(event: Mapping[str, Any]) -> tuple[Answer, ...]:
    """Return the messages that reply to the cell of a `not_run` event. Their parent is the event's ``header``."""
    if event["event"] == NODE_ENDED:
        return _error(event, "") if event.get("is_first") else quiet_answers()
    return _error(event, "The cell was not run.")


def quiet_answers() -> tuple[Answer, ...]:
    """Return messages that finish a cell without output, for a page that shows the error elsewhere."""
    return (
        Answer("iopub", "status", {"execution_state": "idle"}),
        Answer("shell", "execute_reply", {"status": "aborted"}),
    )


def _error(event: Mapping[str, Any], headline: str) -> tuple[Answer, ...]:
    error = error_from_json(event["error"])
    lines = [headline, *str(error).splitlines()] if headline else str(error).splitlines()
    content = {"ename": type(error).__name__, "evalue": error.message, "traceback": lines}
    # Send the reply last, because a client may stop reading after it.
    return (
        Answer("iopub", "error", content),
        Answer("iopub", "status", {"execution_state": "idle"}),
        Answer("shell", "execute_reply", {"status": "error", **content}),
    )
