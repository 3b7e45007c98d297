"""What can happen to an intent. Each event says when (`at`, Unix seconds): the lifecycle has no clock."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_tpu.errors import TpuError
from jupyter_tpu.models import Node, Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened."""

    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken(Event):
    """The process that wrote the intent down begins to perform it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """Another process took the intent over; what its old owner did last is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overruled(Event):
    """The user asked for the node's deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Event):
    """The cloud accepted the request."""

    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Event):
    """The cloud refused the request; it did nothing."""

    error: TpuError


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered(Event):
    """The cloud did not answer the request; it may have done it or not."""

    error: TpuError


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen(Event):
    """The cloud has the node."""

    node: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMissing(Event):
    """The cloud says that there is no such node (it may lag behind)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysSeen(Event):
    """The workers' guest attributes were read; `published` = every worker of the `node` has shown its host keys."""

    node: Node
    published: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSeen(Event):
    """The operation was read."""

    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent(Event):
    """A question about the node got no answer; nothing new is known."""

    error: TpuError
