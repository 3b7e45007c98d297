"""Records of queued resources: each change of a queued resource's state creates a new record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from google.rpc import status_pb2

from jupyter_tpu.emulator.resources.behaviours import documented
from jupyter_tpu.emulator.resources.protos import Initiator, QueuedState
from jupyter_tpu.emulator.resources.records import QueuedRecord

DATA = {
    QueuedState.CREATING: "creating_data",
    QueuedState.ACCEPTED: "accepted_data",
    QueuedState.PROVISIONING: "provisioning_data",
    QueuedState.FAILED: "failed_data",
    QueuedState.DELETING: "deleting_data",
    QueuedState.ACTIVE: "active_data",
    QueuedState.SUSPENDING: "suspending_data",
    QueuedState.SUSPENDED: "suspended_data",
}
"""The message field that each state sets; WAITING_FOR_RESOURCES has none."""


@documented(
    "state-initiator",
    "The initiator of a state shows whether the user or the service caused SUSPENDING and SUSPENDED.",
    source="google-cloud-tpu, QueuedResourceState.state_initiator",
)
def in_state(
    queued: QueuedRecord,
    state: int,
    *,
    initiator: int = Initiator.STATE_INITIATOR_UNSPECIFIED,
    error: status_pb2.Status | None = None,
    **changes: Any,
) -> QueuedRecord:
    """Return the queued resource in another state.

    It has no next step unless `wake` is given; `error` is the reason for FAILED.
    """
    body = type(queued.body)()
    body.CopyFrom(queued.body)
    # clear the data of the old state before setting the new state
    body.ClearField("state")
    body.state.state = state
    body.state.state_initiator = initiator
    field = DATA.get(QueuedState(state))
    if field:
        getattr(body.state, field).SetInParent()
    if error is not None:
        body.state.failed_data.error.CopyFrom(error)
    return replace(queued, body=body, **{"wake": None, **changes})


def state_name(queued: QueuedRecord) -> str:
    """Return the API's name of the state."""
    return str(QueuedState(queued.state).name)
