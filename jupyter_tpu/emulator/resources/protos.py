"""The protobuf classes of google-cloud-tpu that the emulator uses.

The package has proto-plus wrappers and no servicers; the emulator sends the raw messages inside the wrappers.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from google.cloud import tpu_v2

NodePb: TypeAlias = Any
"""A raw ``google.cloud.tpu.v2.Node`` (generated code without type information)."""

State = tpu_v2.Node.State
Health = tpu_v2.Node.Health
AcceleratorConfigType: Any = tpu_v2.AcceleratorConfig.Type
API_VERSION_V2 = tpu_v2.Node.ApiVersion.V2
API_VERSION_V2_ALPHA1 = tpu_v2.Node.ApiVersion.V2_ALPHA1
QueuedState = tpu_v2.QueuedResourceState.State
Initiator = tpu_v2.QueuedResourceState.StateInitiator


def new(message: str, /, **fields: Any) -> Any:
    """Create a raw message of ``google.cloud.tpu.v2`` by its name."""
    return message_class(message)(**fields)


def message_class(name: str) -> Any:
    """Return the class of a raw message by its name."""
    return getattr(tpu_v2, name).pb()


def new_node_from(data: bytes) -> NodePb:
    """Parse the bytes of a raw ``Node`` message."""
    return message_class("Node").FromString(data)


def state_name(node: NodePb) -> str:
    """Return the API's name of the state."""
    return str(State(node.state).name)


# assumed (behaviour `allowed-states`), except for PREEMPTED, which can only be deleted
ALLOWED_IN = {
    "stop": {State.READY},
    "start": {State.STOPPED},
    "update": {State.READY, State.STOPPED},
    "delete": set(State) - {State.DELETING},
    "preempt": {State.READY},
}
"""The node states in which the API accepts a verb."""
