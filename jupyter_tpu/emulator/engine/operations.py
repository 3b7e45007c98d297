"""Long-running operations. API methods start them; each ends when its effect is applied or when it is cancelled."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from google.longrunning import operations_pb2
from google.protobuf import any_pb2, empty_pb2
from google.protobuf.message import Message
from google.rpc import status_pb2

from jupyter_tpu.emulator.engine.timeline import Due
from jupyter_tpu.emulator.resources import errors, paging
from jupyter_tpu.emulator.resources.behaviours import assumed, documented, recorded
from jupyter_tpu.emulator.resources.clock import VirtualClock
from jupyter_tpu.emulator.resources.names import location_of, new_operation_name, parse_location
from jupyter_tpu.emulator.resources.protos import new
from jupyter_tpu.emulator.resources.records import OperationRecord, ended
from jupyter_tpu.emulator.resources.request import V2, ApiRequest
from jupyter_tpu.emulator.resources.targets import target_of
from jupyter_tpu.emulator.store.database import Store

# Virtual seconds, assumed (behaviours `durations` and `queue-durations`): round numbers similar to those in public
# logs.
DURATION_S = {"create": 90.0, "start": 60.0, "stop": 30.0, "delete": 30.0, "update": 5.0}
QUEUED_DURATION_S = {"create": 5.0, "delete": 30.0, "reset": 60.0}
STOCKOUT_AFTER_S = 30.0  # behaviour `stock-out-verdict-time`: dstack saw less than 30 s, a Terraform user 71 s
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
AT_ONCE = 64
"""Maximum number of concurrent actions of one agenda.

Bounds how many workers start at once and the cost of a search.
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """The effect of a scripted fault on the next operation.

    Attributes:
        verdict: the error with which the operation will fail; None if it succeeds.
        is_stuck: whether the operation is never reported as done, although it takes effect.
        due_after_s: the operation's duration in virtual seconds; None for the usual duration.
    """

    verdict: status_pb2.Status | None = None
    is_stuck: bool = False
    due_after_s: float | None = None


class Operations:
    """Start, show, cancel and delete operations."""

    def __init__(self, store: Store, clock: VirtualClock, roll_back: Callable[[OperationRecord], bool]) -> None:
        self._store = store
        self._clock = clock
        self._roll_back = roll_back
        self._plan = Plan()
        self._version = V2

    @contextlib.contextmanager
    def planned(self, plan: Plan, version: str = V2) -> Iterator[None]:
        """Apply `plan` to the operations that start in this context, and store `version` with each of them."""
        self._plan, self._version = plan, version
        try:
            yield
        finally:
            # the plan must not affect the next call
            self._plan, self._version = Plan(), V2

    @property
    def verdict(self) -> status_pb2.Status | None:
        """The error with which a scripted fault makes the next operation fail, or None."""
        return self._plan.verdict

    @recorded(
        "stock-out-verdict-time",
        "A stock-out is reported after about half a minute.",
        source="dstack backends/gcp/compute.py (< 30 s); terraform-provider-google#21243 (71 s)",
    )
    @assumed(
        "durations",
        "In virtual time, a create always takes 90 s, a start 60 s, a stop or delete 30 s, and an update 5 s.",
    )
    def start(
        self,
        verb: str,
        target: str,
        state_before: int = 0,
        *,
        needs_chips: bool = False,
        verdict: status_pb2.Status | None = None,
    ) -> Message:
        """Store an operation that takes effect later, and return it.

        Args:
            state_before: the state to which the target returns if the operation fails.
            needs_chips: whether to look for chips after `STOCKOUT_AFTER_S`, and to fail if there are none.
            verdict: the error with which the operation will fail.
        """
        now = self._clock.now()
        done_at = now + self._duration(verb, target)
        is_looking = needs_chips and self._plan.verdict is None
        return self._add(
            verb,
            target,
            # the operation is due twice: first when chips are allocated, then at `ready_at`, when it takes effect
            due=min(done_at, now + STOCKOUT_AFTER_S) if is_looking else done_at,
            # the time when the operation takes effect, stored separately because `due` is when chips are allocated
            ready_at=done_at if is_looking else None,
            state_before=state_before,
            verdict=self._plan.verdict or verdict,
        )

    def start_waiting(self, verb: str, target: str, state_before: int = 0) -> Message:
        """Store an operation without a due time: `finish_waiting` finishes it when its nodes are deleted."""
        return self._add(verb, target, due=None, ready_at=None, state_before=state_before, verdict=None)

    def _duration(self, verb: str, target: str) -> float:
        if self._plan.due_after_s is not None:
            return self._plan.due_after_s
        if self._plan.verdict is not None:
            # a fault makes an operation fail after half a minute, like a stock-out
            return STOCKOUT_AFTER_S
        return (QUEUED_DURATION_S if is_queued_name(target) else DURATION_S)[verb]

    def _add(self, verb: str, target: str, **fields: Any) -> Message:
        now = self._clock.now()
        # an operation is in the location of its target
        location = location_of(target)
        operation = OperationRecord(
            name=new_operation_name(location, now),
            zone=location.zone,
            verb=verb,
            target=target,
            created=now,
            is_stuck=self._plan.is_stuck,
            version=self._version,
            **fields,
        )
        self._store.add_operation(operation)
        return rendered(operation)

    def abort(self, target: str) -> None:
        """Cancel operations in progress for a node that is about to be deleted."""
        for operation in self._store.operations_in_flight(target):
            self._store.save_operation(ended(operation, self._clock.now(), error=errors.cancelled()))

    def finish(self, operation: OperationRecord, *, error: status_pb2.Status | None = None, result: Any = None) -> None:
        """Store the outcome of an operation whose effect has been applied."""
        response = None if error else errors.packed(result or empty_pb2.Empty()).SerializeToString()
        self._store.save_operation(ended(operation, self._clock.now(), error=error, response=response))

    def finish_waiting(self, target: str) -> None:
        """Finish the operation that `start_waiting` stored."""
        for operation in self._store.operations_undone(target):
            if operation.due is None:
                self.finish(operation)

    # -- repeated requests

    @documented(
        "request-id",
        "A repeated request with the same request id returns the same operation.",
        source="google-cloud-tpu, CreateQueuedResourceRequest.request_id",
    )
    @assumed("request-id-body", "If a request id is repeated, the new request body is ignored.")
    def repeated(self, call: ApiRequest) -> Message | None:
        """Return the operation that an earlier request with the same request id started, or None."""
        request_id = request_id_of(call)
        if not request_id:
            return None
        # check before the lookup: a malformed ID is rejected even if nothing is stored for it
        check_request_id(request_id)
        known = self._store.operation_of_request(request_id, call.method, target_of(call.request))
        return None if known is None else rendered(known)

    def remember(self, call: ApiRequest, answer: Message) -> None:
        """If the request has an id, store the id with the operation that the request started."""
        request_id = request_id_of(call)
        # don't store a rejected call, because the same request may succeed later
        if request_id and isinstance(answer, operations_pb2.Operation):
            self._store.remember_request(request_id, call.method, target_of(call.request), answer.name)

    # -- methods of google.longrunning.Operations

    def get_operation(self, request: Any) -> Message:
        """Handle ``GetOperation``; raise NOT_FOUND if there is no such operation."""
        return rendered(self._required(request.name))

    def list_operations(self, request: Any) -> Message:
        """Handle ``ListOperations``: return one page, sorted by name, of one zone or of all zones."""
        location = parse_location(request.name, "name")
        size = paging.page_size_of(request.page_size)
        after = paging.name_before(request.page_token)
        rest = self._store.operations(None if location.is_wildcard else location.zone, after=after, limit=size + 1)
        page, token = paging.cut(rest, _name_of, size)
        operations = [rendered(record) for record in page]
        return operations_pb2.ListOperationsResponse(operations=operations, next_page_token=token)

    @assumed(
        "cancel",
        "A cancelled operation is done at once, with code 1, and its node returns to its previous state. The delete"
        " and reset operations of a queued resource continue, and only show that a cancellation was requested.",
    )
    def cancel_operation(self, request: Any) -> Message:
        """Handle ``CancelOperation``: undo the operation if possible."""
        operation = self._required(request.name)
        if not operation.is_done:
            # the operation shows the cancellation request even if it can't be undone
            cancelled = replace(operation, is_cancel_requested=True)
            is_undone = self._roll_back(operation)
            error = errors.cancelled()
            self._store.save_operation(ended(cancelled, self._clock.now(), error=error) if is_undone else cancelled)
        return empty_pb2.Empty()

    @assumed(
        "delete-operation",
        "A finished operation can be deleted and is then unknown; deleting a running operation is refused.",
    )
    def delete_operation(self, request: Any) -> Message:
        """Handle ``DeleteOperation``: delete the record of a finished operation."""
        operation = self._required(request.name)
        if not operation.is_done:
            raise errors.wrong_state("delete operation", "RUNNING")
        self._store.remove_operation(operation.name)
        return empty_pb2.Empty()

    def _required(self, name: str) -> OperationRecord:
        location_of(name)
        operation = self._store.operation(name)
        if operation is None:
            raise errors.not_found(name)
        return operation


def _name_of(operation: OperationRecord) -> str:
    return operation.name


def rendered(operation: OperationRecord) -> Message:
    """Return the operation as a message of v2; its metadata contains the API version that started it."""
    shown = operations_pb2.Operation(name=operation.name, done=operation.is_done)
    shown.metadata.CopyFrom(errors.packed(_metadata(operation)))
    if operation.error is not None:
        shown.error.CopyFrom(operation.error)
    elif operation.response is not None:
        shown.response.CopyFrom(any_pb2.Any.FromString(operation.response))
    return shown


def _metadata(operation: OperationRecord) -> Any:
    metadata = new(
        "OperationMetadata",
        target=operation.target,
        verb=operation.verb,
        cancel_requested=operation.is_cancel_requested,
        api_version=operation.version,
    )
    # use virtual time, as in all timestamps of the API
    metadata.create_time.FromNanoseconds(int(operation.created * 1e9))
    if operation.ended is not None:
        metadata.end_time.FromNanoseconds(int(operation.ended * 1e9))
    return metadata


def request_id_of(call: ApiRequest) -> str:
    """Return the request id of a call, or an empty string. Its field depends on the API version."""
    return call.request_id or str(getattr(call.request, "request_id", ""))


@assumed("request-id-uuid", "A request id must be a UUID other than the zero UUID.")
def check_request_id(request_id: str) -> None:
    """Raise an error if the request id is not a valid UUID."""
    if not _UUID.fullmatch(request_id) or not request_id.strip("0-"):
        raise errors.bad_field("request_id", f"request_id {request_id[:80]!r} must be a valid UUID, not of zeros only")


def is_queued_name(name: str) -> bool:
    """Return whether a resource name belongs to a queued resource."""
    return "/queuedResources/" in name


class OperationAgenda:
    """The operations that have not taken effect yet. Operations on the same target run one at a time."""

    def __init__(self, store: Store, perform: Callable[[OperationRecord], Awaitable[None]]) -> None:
        self._store = store
        self._perform = perform

    def waiting(self) -> list[Due]:
        """Return the operations that take effect next, with their due times."""
        return [Due(due, target, partial(self._act, name)) for due, name, target in self._store.next_due(AT_ONCE)]

    async def _act(self, name: str) -> None:
        """Perform the operation, unless it has finished since it was listed."""
        operation = self._store.operation(name)
        if operation is not None and operation.due is not None:
            await self._perform(operation)
