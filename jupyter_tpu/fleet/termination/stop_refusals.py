"""What a refusal to stop a node means: most pass by, and to delete the node then would cost its disk for nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from jupyter_tpu.errors import BadInput, CloudRefused, NodeNotFound, TpuError

LAST_RESORT_S = 300.0
"""A node that costs beyond a cap is deleted when the cloud has refused for so long to stop it."""

LAST_RESORT_OF_PANIC_S = 120.0
"""The same where the user asked to stop all spending now."""

_FOR_GOOD = re.compile(
    r"stop\w*\b.{0,80}\b(not supported|unsupported|not possible)|(not supported|unsupported).{0,80}\bstop"
    r"|(cannot|can't|can not) be stopped|can only be deleted",
    re.IGNORECASE | re.DOTALL,
)


def is_for_good(error: TpuError) -> bool:
    """Whether the cloud says that such a node cannot be stopped at all, whoever asks and whenever."""
    is_about_the_node = type(error) in (BadInput, CloudRefused) or error.code == "wrong_state"
    return is_about_the_node and _FOR_GOOD.search(f"{error.raw} {error.message}") is not None


def may_pass(error: TpuError) -> bool:
    """Whether it is a refusal that may be another one soon: of permission, of too many requests, of a state."""
    is_refusal = isinstance(error, (CloudRefused, BadInput)) and not isinstance(error, NodeNotFound)
    return is_refusal and not is_for_good(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for a node at the cap, the last time of several.

    Attributes:
        refused_since: since when every request to stop it was refused for a reason that may pass; None: none was.
        cannot_be_stopped: by the word of the cloud.
    """

    intent_id: str = ""
    at: float = 0.0
    times: int = 0
    refused_since: float | None = None
    cannot_be_stopped: bool = False

    def refused(self, verb: str, error: TpuError) -> Asked:
        """The last request has failed."""
        if verb == "stop" and is_for_good(error):
            return replace(self, cannot_be_stopped=True)
        if not may_pass(error) or self.refused_since is not None:
            return self
        return replace(self, refused_since=self.at)

    def why_delete(self, now: float) -> str:
        """Why it is not asked again to stop the node; empty: it is."""
        if self.cannot_be_stopped:
            return "The cloud says that this node cannot be stopped, so it is deleted."
        if self.refused_since is not None and now - self.refused_since >= LAST_RESORT_S:
            return f"The cloud has refused for {LAST_RESORT_S / 60:.0f} min to stop it, so it is deleted."
        return ""


NEVER_ASKED = Asked()
