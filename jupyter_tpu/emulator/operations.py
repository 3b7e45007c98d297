"""Long-running operations: started by the methods of nodes, ended by their effects or by a cancel."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from google.longrunning import operations_pb2
from google.protobuf import any_pb2, empty_pb2
from google.protobuf.message import Message
from google.rpc import status_pb2

from jupyter_tpu.emulator import errors, paging
from jupyter_tpu.emulator.behaviours import assumed, recorded
from jupyter_tpu.emulator.clock import VirtualClock
from jupyter_tpu.emulator.names import location_of, new_operation_name, parse_location
from jupyter_tpu.emulator.protos import new
from jupyter_tpu.emulator.store import OperationRecord, Store, ended

DURATION_S = {"create": 90.0, "start": 60.0, "stop": 30.0, "delete": 30.0, "update": 5.0}
STOCKOUT_AFTER_S = 30.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a scripted fault wants of the next operation that starts."""

    verdict: status_pb2.Status | None = None
    is_stuck: bool = False


class Operations:
    """Starts, shows, cancels and forgets operations."""

    def __init__(self, store: Store, clock: VirtualClock, roll_back: Callable[[OperationRecord], None]) -> None:
        self._store = store
        self._clock = clock
        self._roll_back = roll_back
        self._plan = Plan()

    @contextlib.contextmanager
    def planned(self, plan: Plan) -> Iterator[None]:
        """Operations that start within follow the plan."""
        self._plan = plan
        try:
            yield
        finally:
            self._plan = Plan()

    @recorded(
        "stock-out-verdict-time",
        "A stock-out shows after about half a minute.",
        source="dstack backends/gcp/compute.py (< 30 s); terraform-provider-google#21243 (71 s)",
    )
    @assumed(
        "durations",
        "In virtual time a create takes 90 s, a start 60 s, a stop or a delete 30 s, an update 5 s, always.",
    )
    def start(self, verb: str, target: str, state_before: int = 0) -> Message:
        """An operation that will be performed later; `state_before` is what its node goes back to if it fails."""
        now = self._clock.now()
        location = location_of(target)
        operation = OperationRecord(
            name=new_operation_name(location, now),
            zone=location.zone,
            verb=verb,
            target=target,
            created=now,
            due=now + (STOCKOUT_AFTER_S if self._plan.verdict else DURATION_S[verb]),
            is_stuck=self._plan.is_stuck,
            verdict=self._plan.verdict,
            state_before=state_before,
        )
        self._store.add_operation(operation)
        return rendered(operation)

    def abort(self, target: str) -> None:
        """End what is in flight for a node that is about to be deleted."""
        for operation in self._store.operations_in_flight(target):
            self._store.save_operation(ended(operation, self._clock.now(), error=errors.cancelled()))

    def finish(self, operation: OperationRecord, *, error: status_pb2.Status | None = None, result: Any = None) -> None:
        """Record the outcome of an operation whose effect happened."""
        response = None if error else errors.packed(result or empty_pb2.Empty()).SerializeToString()
        self._store.save_operation(ended(operation, self._clock.now(), error=error, response=response))

    # -- the methods of google.longrunning.Operations

    def get_operation(self, request: Any) -> Message:
        return rendered(self._required(request.name))

    def list_operations(self, request: Any) -> Message:
        location = parse_location(request.name, "name")
        records = self._store.operations(None if location.is_wildcard else location.zone)
        by_name = sorted(records, key=_name_of)
        page, token = paging.page_of(by_name, _name_of, request.page_size, request.page_token)
        operations = [rendered(record) for record in page]
        return operations_pb2.ListOperationsResponse(operations=operations, next_page_token=token)

    @assumed("cancel", "A cancelled operation ends at once with code 1 and its node goes back to where it was.")
    def cancel_operation(self, request: Any) -> Message:
        operation = self._required(request.name)
        if not operation.is_done:
            self._roll_back(operation)
            asked = replace(operation, is_cancel_requested=True)
            self._store.save_operation(ended(asked, self._clock.now(), error=errors.cancelled()))
        return empty_pb2.Empty()

    @assumed("delete-operation", "A finished operation can be deleted and is forgotten; a running one is refused.")
    def delete_operation(self, request: Any) -> Message:
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
    """The operation as the API shows it."""
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
        api_version="v2",
    )
    metadata.create_time.FromNanoseconds(int(operation.created * 1e9))
    if operation.ended is not None:
        metadata.end_time.FromNanoseconds(int(operation.ended * 1e9))
    return metadata
