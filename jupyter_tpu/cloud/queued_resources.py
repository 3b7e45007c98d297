"""API calls of `GoogleCloud` for queued resources, which wait in the cloud for capacity."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from google.cloud import tpu_v2
from google.protobuf import duration_pb2
from google.rpc import code_pb2

from jupyter_tpu.cloud import protos
from jupyter_tpu.cloud.call_policy import CHANGE, READ, translated
from jupyter_tpu.cloud.refusal_records import Request
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.cloud.translation import error_of_status
from jupyter_tpu.errors import BadInput, OutOfCapacity, Text, TpuError, plain
from jupyter_tpu.models import Operation, QueuedList, QueuedName, QueuedResource, QueuedSpec

log = logging.getLogger(__name__)

KIND = "queued resource"
_SUSPENDED = frozenset({tpu_v2.QueuedResourceState.State.SUSPENDING, tpu_v2.QueuedResourceState.State.SUSPENDED})
_BY_USER = tpu_v2.QueuedResourceState.StateInitiator.USER
_DEADLINE_EXCEEDED = code_pb2.DEADLINE_EXCEEDED


class QueueCalls:
    """API calls for the queued resources of one project. They raise the same errors as `CloudApi`."""

    def __init__(self, client: tpu_v2.TpuAsyncClient, project: str) -> None:
        self._client = client
        self._project = project

    async def list(self, zone: str) -> QueuedList:
        """List the queued resources of a zone; see `CloudApi.list_queued_resources`."""
        items: list[QueuedResource] = []
        unreachable: set[str] = set()
        zone_or_all = "" if zone == "-" else zone
        about = Request(
            what=Text("list the queued resources"), project=self._project, zone=zone_or_all, takes_capacity=False
        )
        with translated(about):
            request = tpu_v2.ListQueuedResourcesRequest(
                parent=f"projects/{self._project}/locations/{zone}", page_size=500
            )
            pager = await self._client.list_queued_resources(request, **READ)
            async for page in pager.pages:
                message = tpu_v2.ListQueuedResourcesResponse.pb(page)
                items += _readable(message.queued_resources, self._project)
                unreachable.update(plain(name.rpartition("/")[2], 100) for name in message.unreachable)
        return QueuedList(items=tuple(sorted(items, key=_name_of)), unreachable=tuple(sorted(unreachable)))

    async def create(self, spec: QueuedSpec, valid_for_s: float | None) -> Operation:
        """Queue a request for a node; see `CloudApi.create_queued_resource`."""
        about = replace(
            _about(Text("create the queued resource {queued} in {zone}"), spec.name),
            accelerator_type=spec.node.accelerator_type,
        )
        request = tpu_v2.CreateQueuedResourceRequest(
            parent=spec.name.parent,
            queued_resource_id=spec.name.queued_id,
            queued_resource=queued_to_create(spec, valid_for_s),
            request_id=request_id_of(spec),
        )
        with translated(about):
            # Retry like a read: the API recognises a retry by its request ID.
            answer = await self._client.create_queued_resource(request, **{**READ, "timeout": 60})
        return protos.operation_of(answer.operation, about)

    async def delete(self, name: QueuedName, *, force: bool) -> Operation:
        """Delete a queued resource; see `CloudApi.delete_queued_resource`."""
        about = replace(_about(Text("delete the queued resource {queued} in {zone}"), name), takes_capacity=False)
        with translated(about):
            request = tpu_v2.DeleteQueuedResourceRequest(name=str(name), force=force)
            answer = await self._client.delete_queued_resource(request, **CHANGE)
        return protos.operation_of(answer.operation, about)


async def create_flex_start(
    settings: CloudSettings, spec: QueuedSpec, valid_for_s: float | None, run_for_s: float
) -> Operation:
    """Queue a flex-start node; raise the same errors as `QueueCalls.create`."""
    # Import here, because the REST client is slow to import and rarely needed.
    flex_start = await asyncio.to_thread(importlib.import_module, "jupyter_tpu.cloud.flex_start")
    about = replace(
        _about(Text("create the queued resource {queued} in {zone}"), spec.name),
        accelerator_type=spec.node.accelerator_type,
    )
    query = {"queuedResourceId": spec.name.queued_id, "requestId": request_id_of(spec)}
    body = flex_start.flex_start_body(spec, valid_for_s, run_for_s)
    operation: Operation = await asyncio.to_thread(
        flex_start.create_flex_start, settings, about, query, body, os.environ
    )
    return operation


def _about(what: Text, name: QueuedName) -> Request:
    what = what.with_arguments(queued=repr(name.queued_id), zone=name.zone)
    return Request(what=what, project=name.project, zone=name.zone, kind=KIND)


def _name_of(queued: QueuedResource) -> QueuedName:
    return queued.name


def request_id_of(spec: QueuedSpec) -> str:
    """Return a request id: the same for a retry, but different for a later request with the same name."""
    # The labels contain the intent's ID (`models.INTENT_LABEL`), so they distinguish two requests with the same name.
    labels = sorted(spec.node.labels.items())
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"//tpu.googleapis.com/{spec.name} {labels}"))


def queued_to_create(spec: QueuedSpec, valid_for_s: float | None) -> tpu_v2.QueuedResource:
    """Build the message that queues a node. If `valid_for_s` is None, the request never expires."""
    node = tpu_v2.QueuedResource.Tpu.NodeSpec(
        parent=spec.name.parent, node_id=spec.node.name.node_id, node=protos.node_to_create(spec.node)
    )
    queued = tpu_v2.QueuedResource(tpu=tpu_v2.QueuedResource.Tpu(node_spec=[node]))
    if spec.node.spot:
        queued.spot = tpu_v2.QueuedResource.Spot()
    if spec.node.reserved:
        # In gcloud's format; a hyphen means any reservation of the project in the zone.
        queued.reservation_name = f"{spec.name.parent}/reservations/{spec.reservation or '-'}"
    if valid_for_s is not None:
        queued.queueing_policy = tpu_v2.QueuedResource.QueueingPolicy(
            valid_until_duration=duration_pb2.Duration(seconds=int(valid_for_s))
        )
    return queued


def queued_of(message: Any, project: str) -> QueuedResource:
    """Convert a ``QueuedResource`` message. Pass the project id, because the message may have the project number."""
    name = replace(QueuedName.parse(message.name), project=project)
    # All nodes of a multislice have the same spec, so the first spec describes them. A leftover request may have no
    # spec.
    specs = list(message.tpu.node_spec)
    node = specs[0].node if specs else tpu_v2.Node.pb(tpu_v2.Node())
    scheduling = node.scheduling_config
    return QueuedResource(
        name=name,
        state=protos.enum_name(tpu_v2.QueuedResourceState.State, message.state.state),
        accelerator_type=plain(node.accelerator_type, 100),
        runtime_version=plain(node.runtime_version, 200),
        spot=message.HasField("spot") or scheduling.spot,
        preemptible=scheduling.preemptible,
        reserved=bool(message.reservation_name) or scheduling.reserved,
        node_ids=tuple(node_id for spec in specs for node_id in _node_ids(spec, name.queued_id)),
        valid_until=_valid_until(message),
        error=_error_of(message, name),
        labels=dict(node.labels),
        create_time=protos.timestamp(message.create_time) if message.HasField("create_time") else "",
        is_reclaimed=message.state.state in _SUSPENDED and message.state.state_initiator != _BY_USER,
    )


def _node_ids(spec: Any, queued_id: str) -> Iterator[str]:
    """Yield the node ids of one node spec. A multislice has numbered ids (MultiNodeParams in the API)."""
    if spec.HasField("multislice_params"):
        prefix = spec.multislice_params.node_id_prefix or queued_id
        yield from (f"{prefix}-{number}" for number in range(spec.multislice_params.node_count))
    else:
        yield spec.node_id


def _valid_until(message: Any) -> float | None:
    policy = message.queueing_policy
    match policy.WhichOneof("start_timing_constraints"):
        case "valid_until_duration" if message.HasField("create_time"):
            return float(message.create_time.ToNanoseconds() + policy.valid_until_duration.ToNanoseconds()) / 1e9
        case "valid_until_time":
            return float(policy.valid_until_time.ToNanoseconds()) / 1e9
        case "valid_interval" if policy.valid_interval.HasField("end_time"):
            return float(policy.valid_interval.end_time.ToNanoseconds()) / 1e9
        case _:
            return None


def _error_of(message: Any, name: QueuedName) -> TpuError | None:
    status = message.state.failed_data.error
    # The request's own time limit has expired, which is not an API failure.
    if status.code == _DEADLINE_EXCEEDED:
        return OutOfCapacity(
            Text(
                "{queued_resource} timed out: no capacity in {zone} before its deadline.",
                queued_resource=name.queued_id,
                zone=name.zone,
            ),
            raw=status.message,
        )
    return (
        error_of_status(_about(Text("provision the queued resource {queued} in {zone}"), name), status)
        if status.code
        else None
    )


def _readable(messages: Iterable[Any], project: str) -> Iterator[QueuedResource]:
    """Yield the resources with valid names. Log and skip other resources, because no request can refer to them."""
    for message in messages:
        try:
            yield queued_of(message, project)
        except BadInput:
            log.warning("Left out of the list: a queued resource with the unusual name %.200r", message.name)
