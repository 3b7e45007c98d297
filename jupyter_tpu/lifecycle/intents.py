"""Intents: the user's requests for nodes, and their progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jupyter_tpu.error_actions import actions_from_json
from jupyter_tpu.errors import TpuError, error_from_json
from jupyter_tpu.models import NodeName, NodeSpec
from jupyter_tpu.node_end import EndCause

Verb = Literal["create", "delete", "stop", "start"]

FAILED_PHASES = frozenset({"failed", "cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One request about one node, as the journal stores it.

    Attributes:
        intent_id: unique id, which is also a label of the created node, so that the node can be identified.
        endpoint: the node's cloud, as in `CloudSettings.endpoint`; empty for Google Cloud. Another cloud may have a
            node with the same name.
        spec: the node to create; None for other verbs.
        phase: a fixed identifier that depends on the verb. create: requested, asking, checking, provisioning,
            rolling_back, booting, ready; delete: requested, asking, checking, deleting, deleted; stop: requested,
            asking, checking, waiting, stopping, stopped; start: as create, with starting for provisioning. All: failed,
            cancelled.
        message: one sentence for display about the current phase.
        error: why the intent failed; set only if the intent is settled.
        settled: whether the intent is done, failed or cancelled, so that no more requests are sent.
        created_at, updated_at: when the intent was created and last changed (Unix seconds).
        owner: the process that performs the intent, see `jupyter_tpu.journal.owner`; empty if no process does.
        operation: name of the cloud's operation; empty until the cloud has responded.
        asked_at: when the last request was sent (Unix seconds); 0 for never.
        phase_since: when the current phase began (Unix seconds).
        missing_since: when the node was first missing in the cloud (Unix seconds); 0 if it isn't missing or was not
            queried.
        cause: why the request or operation failed; kept until it is known what remains in the cloud.
        because: for stop and delete: why the node is stopped or deleted; None if the user requested it.
        may_appear: for delete: whether the node was being created when this intent began, and the cloud has not listed
            the node yet.
    """

    intent_id: str
    verb: Verb
    node_name: NodeName
    endpoint: str = ""
    spec: NodeSpec | None = None
    phase: str = "requested"
    message: str = ""
    error: TpuError | None = None
    settled: bool = False
    created_at: float = 0.0
    updated_at: float = 0.0
    owner: str = ""
    operation: str = ""
    asked_at: float = 0.0
    phase_since: float = 0.0
    missing_since: float = 0.0
    cause: TpuError | None = None
    because: EndCause | None = None
    may_appear: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether the intent is settled and reached its goal."""
        return self.settled and self.error is None and self.phase not in FAILED_PHASES

    def to_json(self) -> dict[str, Any]:
        """Return all fields in the journal's format; `from_json` is the inverse."""
        return {
            "intent_id": self.intent_id,
            "verb": self.verb,
            "node_name": str(self.node_name),
            "endpoint": self.endpoint,
            "zone": self.node_name.zone,
            "node_id": self.node_name.node_id,
            "spec": self.spec.to_json() if self.spec else None,
            "phase": self.phase,
            "message": self.message,
            "error": self.error.to_json() if self.error else None,
            "settled": self.settled,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "owner": self.owner,
            "operation": self.operation,
            "asked_at": self.asked_at,
            "phase_since": self.phase_since,
            "missing_since": self.missing_since,
            "cause": self.cause.to_json() if self.cause else None,
            "because": self.because.to_json() if self.because else None,
            "may_appear": self.may_appear,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Intent:
        """Parse the output of `to_json` from this version or an earlier one."""
        return cls(
            intent_id=data["intent_id"],
            verb=data["verb"],
            node_name=NodeName.parse(data["node_name"]),
            endpoint=data["endpoint"],
            spec=NodeSpec.from_json(data["spec"]) if data["spec"] else None,
            phase=data["phase"],
            message=data["message"],
            error=_error_from_json(data["error"]),
            settled=data["settled"],
            created_at=data["created_at"],
            updated_at=data["updated_at"],
            owner=data["owner"],
            operation=data["operation"],
            asked_at=data["asked_at"],
            phase_since=data["phase_since"],
            missing_since=data["missing_since"],
            cause=_error_from_json(data["cause"]),
            because=EndCause.from_json(data.get("because")),
            may_appear=data.get("may_appear", False),  # earlier versions did not write this field
        )


def _error_from_json(data: dict[str, Any] | None) -> TpuError | None:
    if not data:
        return None
    error = error_from_json(data)
    error.actions = actions_from_json(data.get("actions"))
    return error
