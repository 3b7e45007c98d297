"""Records of a request to the cloud and of its refusal, from which errors are built. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_tpu.models import NodeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The facts about a request that an error message needs.

    Attributes:
        what: continues "Could not …": ``create node 'my-node' in us-central1-a``.
        kind: of the resource: ``node`` or ``queued resource``.
        spec: of the node to create; None for other requests.
        takes_capacity: whether it needs free TPUs; a stop, a deletion or a read cannot fail for lack of them.
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
    """The cloud's refusal.

    Attributes:
        code: of google.rpc.Code (8 = RESOURCE_EXHAUSTED); 0 if there was none.
        reason: of google.rpc.ErrorInfo, such as SERVICE_DISABLED.
        violations: descriptions of google.rpc.QuotaFailure.
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
