"""The records in the emulator's store: operations, queued resources and billing spans."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from google.rpc import status_pb2

from jupyter_tpu.emulator.resources.request import V2


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRecord:
    """A long-running operation.

    Attributes:
        due: virtual time at which the operation takes effect; None after that, after a cancellation, and while it waits
            for the nodes of a queued resource to be deleted.
        is_stuck: whether a fault prevents the operation from being reported as done, although it takes effect.
        verdict: the error, from a fault or a stock-out, with which the operation will finish; None if it will succeed.
        state_before: the state to which the target returns if the operation fails; 0 if the target did not exist.
        version: API version of the request, whose types are used to show the operation.
        ready_at: the value that `due` will have after chips have been found for the node; None if chips were found or
            are not needed.
        ended, error, response: the virtual time of the end and the result; set when the operation is done; `response`
            is a serialised ``google.protobuf.Any``.
    """

    name: str
    zone: str
    verb: str
    target: str
    created: float
    due: float | None
    is_stuck: bool = False
    verdict: status_pb2.Status | None = None
    state_before: int = 0
    is_cancel_requested: bool = False
    ended: float | None = None
    error: status_pb2.Status | None = None
    response: bytes | None = None
    version: str = V2
    ready_at: float | None = None

    @property
    def is_done(self) -> bool:
        """Whether the operation is reported as done."""
        return self.ended is not None


def ended(
    operation: OperationRecord,
    now: float,
    *,
    error: status_pb2.Status | None = None,
    response: bytes | None = None,
) -> OperationRecord:
    """Return the record of an operation that has taken effect or failed.

    A stuck operation stays unfinished, unless there is an error.
    """
    if operation.is_stuck and error is None:
        return replace(operation, due=None)
    return replace(operation, due=None, ended=now, error=error, response=response)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRecord:
    """A queued resource.

    Attributes:
        body: a raw ``google.cloud.tpu.v2.QueuedResource``.
        created: virtual time of creation, which determines the order of the queue.
        wake: virtual time of the next step; None if no step is scheduled.
        valid_from, valid_until: the interval for provisioning; None for no bound.
        verdict: the error with which it will fail once its nodes are deleted; None if it will be SUSPENDED.
    """

    body: Any
    created: float
    wake: float | None = None
    valid_from: float | None = None
    valid_until: float | None = None
    verdict: status_pb2.Status | None = None

    @property
    def name(self) -> str:
        """The full name of the queued resource."""
        return str(self.body.name)

    @property
    def state(self) -> int:
        """The state of the queued resource, as the API's number."""
        return int(self.body.state.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """An interval in which a node was READY; `ended` is None while the node is READY.

    `mode` is the pricing mode: ``on-demand``, ``spot``, ``flex-start`` or ``reserved``.
    """

    uid: str
    name: str
    accelerator_type: str
    zone: str
    spot: bool
    nanos_per_hour: int | None
    started: float
    ended: float | None = None
    is_waived: bool = False
    mode: str = "on-demand"


GuestItem = tuple[str, str, str]
"""Namespace, key and value of a guest attribute."""
