"""The events of an intent. Each event includes its time, because the lifecycle has no clock."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_tpu.errors import TpuError
from jupyter_tpu.models import Node, Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to an intent, with the time in Unix seconds."""

    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Event):
    """The start of an intent by the process that saved it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """The claim of the intent by another process. The previous owner's last action is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overruled(Event):
    """The cancellation of this intent by a newer intent; see `jupyter_tpu.lifecycle.conflicts.overrules`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted(Event):
    """The cloud's acceptance of the request."""

    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Event):
    """The cloud's rejection of the request. Nothing has changed in the cloud."""

    error: TpuError


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered(Event):
    """The lack of a response to the request. It is unknown whether the cloud has carried out the request."""

    error: TpuError


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen(Event):
    """A successful read of the node from the cloud."""

    node: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMissing(Event):
    """A list from the cloud that does not contain the node. The list may be out of date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysSeen(Event):
    """A successful read of the workers' guest attributes.

    `published` is true if every worker of `node` has published host keys.
    """

    node: Node
    published: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSeen(Event):
    """A successful read of the operation from the cloud."""

    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAnswer(Event):
    """A failed attempt to read the node or its operation; the state stays as last known."""

    error: TpuError
