"""What was asked of the cloud and what it answered when it refused."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked, for the words of the error.

    Attributes:
        what: as in "Could not …": ``create node 'my-node' in us-central1-a``.
        kind: of the resource that is meant.
    """

    what: str
    project: str
    zone: str = ""
    node_id: str = ""
    accelerator_type: str = ""
    kind: str = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The cloud's answer.

    Attributes:
        code: of google.rpc.Code (8 = RESOURCE_EXHAUSTED); 0 when there was none.
        reason: of google.rpc.ErrorInfo, such as SERVICE_DISABLED.
        violations: descriptions of google.rpc.QuotaFailure.
    """

    code: int
    message: str
    reason: str = ""
    violations: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All words of the answer."""
        return "\n".join((self.message, *self.violations))


@dataclass(frozen=True, slots=True)
class Case:
    """A request that was refused."""

    request: Request
    refusal: Refusal
