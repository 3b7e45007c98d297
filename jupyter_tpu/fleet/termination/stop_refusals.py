"""Interpret errors from stop requests. Most errors are temporary; deleting the node would needlessly lose its disk."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from jupyter_tpu.errors import BadInput, CloudRefused, NodeNotFound, RateExceeded, Text, TpuError

LAST_RESORT_S = 300.0
"""A node above its cap is deleted if the cloud has refused to stop it for this many seconds: our choice."""

LAST_RESORT_OF_STOP_ALL_S = 120.0
"""The same if a user stops all spending now and waits for the result."""

# phrases that we expect in Google's error for a node that can never be stopped: no such error has been recorded, and it
# has no error code of its own
_FOR_GOOD = re.compile(
    r"stop\w*\b.{0,80}\b(not supported|unsupported|not possible)|(not supported|unsupported).{0,80}\bstop"
    r"|(cannot|can't|can not) be stopped|can only be deleted",
    re.IGNORECASE | re.DOTALL,
)


def is_permanent(error: TpuError) -> bool:
    """Return whether the error means that a node of this kind can never be stopped.

    Only the cloud's own words count: our message that a node "cannot be stopped" while it is being started does not
    mean that it never can.
    """
    is_about_the_node = type(error) in (BadInput, CloudRefused) or error.code == "wrong_state"
    return is_about_the_node and _FOR_GOOD.search(error.raw) is not None


def is_temporary(error: TpuError) -> bool:
    """Return whether the refusal is temporary: due to permissions or the node's state, but not to the request rate."""
    is_refusal = isinstance(error, (CloudRefused, BadInput)) and not isinstance(error, (NodeNotFound, RateExceeded))
    return is_refusal and not is_permanent(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRequest:
    """The requests to stop or delete one node.

    Attributes:
        intent_id: intent of the last request; empty if it was sent without an intent.
        at: when the last request was sent (seconds of the caller's clock).
        times: how many requests were sent.
        refused_since: start of the current series of stop requests rejected for a temporary reason; None if the last
            request was not rejected for such a reason.
        cannot_be_stopped: whether the cloud reported that the node can never be stopped.
    """

    intent_id: str = ""
    at: float = 0.0
    times: int = 0
    refused_since: float | None = None
    cannot_be_stopped: bool = False

    def refused(self, verb: str, error: TpuError) -> EndRequest:
        """Return this record, updated with the error from the last request."""
        if verb == "stop" and is_permanent(error):
            return replace(self, cannot_be_stopped=True)
        # refusals are counted from the first one; a request without a response in between changes nothing
        if not is_temporary(error) or self.refused_since is not None:
            return self
        return replace(self, refused_since=self.at)

    def why_delete(self, now: float) -> str:
        """Return why the node must be deleted instead of stopped, for display, or "" if it should be stopped."""
        if self.cannot_be_stopped:
            return Text("The cloud says that this node cannot be stopped, so it is deleted.")
        if self.refused_since is not None and now - self.refused_since >= LAST_RESORT_S:
            return Text(
                "The cloud has refused to stop this node for {minutes} min, so it is deleted.",
                minutes=round(LAST_RESORT_S / 60),
            )
        return ""


NO_REQUEST = EndRequest()
