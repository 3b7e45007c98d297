"""Records that describe a request to the cloud and its refusal, used to build errors. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_tpu.models import NodeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The details of a request for its error message.

    Attributes:
        what: the request, as it appears after "Could not" in the message: ``create node 'my-node' in us-central1-a``.
        kind: kind of the resource: ``node`` or ``queued resource``.
        spec: specification of the node to create; None for other requests.
        takes_capacity: whether the request needs free TPUs; a stop, deletion or read can't fail for lack of capacity.
    """

    what: str
    project: str
    zone: str = ""
    node_id: str = ""
    accelerator_type: str = ""
    kind: str = "node"
    spec: NodeSpec | None = None
    takes_capacity: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The error with which the cloud rejected a request.

    Attributes:
        code: code from google.rpc.Code (8 = RESOURCE_EXHAUSTED); 0 if there was none.
        reason: reason from google.rpc.ErrorInfo, such as SERVICE_DISABLED.
        violations: descriptions from google.rpc.QuotaFailure.
    """

    code: int
    message: str
    reason: str = ""
    violations: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The message with all violations."""
        return "\n".join((self.message, *self.violations))


@dataclass(frozen=True, slots=True)
class Case:
    """A request and its refusal."""

    request: Request
    refusal: Refusal
