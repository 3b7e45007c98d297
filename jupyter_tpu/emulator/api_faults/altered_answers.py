"""Change responses for scripted faults: outdated nodes, wrong timestamps, unknown states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf import any_pb2, descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.message import Message
from google.rpc import code_pb2

from jupyter_tpu.emulator.api_faults.faults import Fault
from jupyter_tpu.emulator.resources import errors, paging
from jupyter_tpu.emulator.resources.names import parse_location
from jupyter_tpu.emulator.resources.protos import NodePb
from jupyter_tpu.emulator.store.database import Store

NANOS = 10**9  # nanoseconds per second
UNKNOWN_ENUM = 99
"""A number that no enum of the API contains."""


def seen_by(fault: Fault, request: Any, perform: Callable[[], Any], store: Store, now: float) -> Any:
    """Return the response to ListNodes or GetNode as it would have been `fault.seconds` ago."""
    # the caller sees the list of nodes as of this time
    since = now - fault.seconds
    if fault.kind == "not_yet_visible":
        return _without_young(perform(), since)
    return _with_removed(request, perform, store, since)


def _without_young(answer: Any, since: float) -> Any:
    if "nodes" not in answer.DESCRIPTOR.fields_by_name:
        if _created(answer) > since:
            raise errors.not_found(answer.name)
        return answer
    old = [node for node in answer.nodes if _created(node) <= since]
    del answer.nodes[:]
    answer.nodes.extend(old)
    return answer


def _created(node: NodePb) -> float:
    return float(node.create_time.ToNanoseconds() / NANOS)


def _with_removed(request: Any, perform: Callable[[], Any], store: Store, since: float) -> Any:
    if "parent" in request.DESCRIPTOR.fields_by_name:
        answer = perform()
        # removed nodes are in a separate table, so pages must be merged by name
        gone = [node for node in store.removed_nodes(since) if _is_of_page(node, request, answer)]
        nodes = sorted([*answer.nodes, *gone], key=lambda node: str(node.name))
        del answer.nodes[:]
        answer.nodes.extend(nodes)
        return answer
    return _found_or_removed(str(request.name), perform, store, since)


def _found_or_removed(name: str, perform: Callable[[], Any], store: Store, since: float) -> Any:
    try:
        return perform()
    except errors.Refusal as refusal:
        found = [node for node in store.removed_nodes(since) if node.name == name]
        if refusal.status.code != code_pb2.NOT_FOUND or not found:
            raise
        return found[-1]


def _is_of_page(node: NodePb, request: Any, answer: Any) -> bool:
    """Return whether a removed node would be on this page and no listed node has its name."""
    location = parse_location(request.parent, "parent")
    if not (location.is_wildcard or node.name.split("/")[3] == location.zone):
        return False
    names = [str(each.name) for each in answer.nodes]
    is_before_the_end = not answer.next_page_token or node.name <= names[-1]
    return node.name not in names and node.name > paging.name_before(request.page_token) and is_before_the_end


def moved_in_time(answer: Message, seconds: float) -> Message:
    """Return a copy with every timestamp `seconds` later."""
    moved = type(answer)()
    moved.CopyFrom(answer)
    _move(moved, round(seconds * NANOS))
    return moved


def _move(message: Any, nanos: int) -> None:
    if isinstance(message, timestamp_pb2.Timestamp):
        message.FromNanoseconds(message.ToNanoseconds() + nanos)
    # operations contain the resource as a packed message, whose timestamps must be shifted too
    elif isinstance(message, any_pb2.Any):
        inner = _unpacked(message)
        if inner is not None:
            _move(inner, nanos)
            message.Pack(inner)
    else:
        for part in _parts(message):
            _move(part, nanos)


def _unpacked(message: any_pb2.Any) -> Message | None:
    """Return the packed message, or None if its type is not loaded."""
    try:
        descriptor = descriptor_pool.Default().FindMessageTypeByName(message.TypeName())
    except KeyError:
        return None
    inner: Message = message_factory.GetMessageClass(descriptor)()
    message.Unpack(inner)
    return inner


def _parts(message: Any) -> Iterator[Any]:
    """Yield the directly nested messages; skip maps, because no map in the API contains a time or state."""
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        yield from value if field.is_repeated else [value]


def with_unknown_states(answer: Message) -> Message:
    """Return a copy in which every enum field `state` has a number unknown to all clients."""
    changed = type(answer)()
    changed.CopyFrom(answer)
    _set_unknown_states(changed)
    return changed


def _set_unknown_states(message: Any) -> None:
    state = message.DESCRIPTOR.fields_by_name.get("state")
    if state is not None and state.enum_type is not None:
        # proto3 preserves unknown enum numbers, such as those from a newer server
        message.state = UNKNOWN_ENUM
    for part in _parts(message):
        _set_unknown_states(part)
