"""`CloudApi` through Google's gRPC client, for Google Cloud or an emulator on this machine.

Long-running operations are read as plain messages, without the client's `AsyncOperation.result()`, which loses the
error's type.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
from google.cloud import tpu_v2
from google.cloud.location import locations_pb2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcAsyncIOTransport
from google.longrunning import operations_pb2
from google.protobuf import field_mask_pb2

from jupyter_tpu.cloud import protos
from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.cloud.call_policy import CHANGE, READ, translated
from jupyter_tpu.cloud.cloud_clock import CloudClock
from jupyter_tpu.cloud.credentials import load_credentials
from jupyter_tpu.cloud.emulator_address import emulator_authorization
from jupyter_tpu.cloud.interceptors import ClockInterceptor, HeaderInterceptor, UnreadableAnswerInterceptor
from jupyter_tpu.cloud.queued_resources import QueueCalls, create_flex_start
from jupyter_tpu.cloud.refusal_records import Request
from jupyter_tpu.cloud.settings import PROJECT_VARIABLE, CloudSettings
from jupyter_tpu.errors import BadInput, Text, plain
from jupyter_tpu.models import (
    Node,
    NodeList,
    NodeName,
    NodeSpec,
    Operation,
    QueuedList,
    QueuedName,
    QueuedSpec,
    WorkerIdentity,
)

log = logging.getLogger(__name__)

_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_HOST = "tpu.googleapis.com:443"

_CHANNEL_OPTIONS = [
    # No limit: by default, gRPC rejects responses over 4 MiB, but a list of many nodes may be larger.
    ("grpc.max_receive_message_length", -1),
    # gRPC's default delays grow to 2 min, which is too long for a laptop that has just woken up.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5000),
    # Keepalive is off by default. Without it, a connection that was lost silently is noticed only when a call times
    # out.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 10_000),
]
# Ignore a proxy from the environment, because a proxy is not needed to reach this machine.
_LOOPBACK_OPTIONS = [*_CHANNEL_OPTIONS, ("grpc.enable_http_proxy", 0)]


async def connect(settings: CloudSettings) -> CloudApi:
    """Connect to the cloud; see `jupyter_tpu.cloud.connect_cloud`."""
    clock = CloudClock()
    # The clock's interceptor comes last, so that it times only the call itself.
    interceptors: list[Any] = [UnreadableAnswerInterceptor(), ClockInterceptor(clock, is_emulated=settings.is_emulated)]
    if settings.is_emulated:
        headers = emulator_authorization(os.environ)
        interceptors = [*([HeaderInterceptor(headers)] if headers else []), *interceptors]
        channel = grpc.aio.insecure_channel(settings.endpoint, options=_LOOPBACK_OPTIONS, interceptors=interceptors)
        return GoogleCloud(_with_project(settings, ""), channel, clock)
    with translated(Request(what=Text("sign in to Google Cloud"), project=settings.project)):
        # Use a thread, because loading credentials may read files and query the machine's metadata server.
        credentials, project = await asyncio.to_thread(load_credentials, _SCOPES, os.environ)
        # Credentials may be for a sovereign cloud with its own domain, whose hosts may receive them too.
        universe = await asyncio.to_thread(lambda: credentials.universe_domain) if settings.endpoint else ""
    settings.check_host_may_get_credentials(universe, os.environ)
    channel = TpuGrpcAsyncIOTransport.create_channel(
        host=settings.endpoint or _HOST,
        credentials=credentials,
        options=_CHANNEL_OPTIONS,
        interceptors=interceptors,
    )
    return GoogleCloud(_with_project(settings, project), channel, clock)


def _with_project(settings: CloudSettings, default: str) -> CloudSettings:
    project = settings.project or default
    if not project:
        raise BadInput(
            "No Google Cloud project is selected.",
            hint=Text(
                "Set the project with --project or {variable}; `gcloud projects list` shows your projects.",
                variable=PROJECT_VARIABLE,
            ),
        )
    if project.isdecimal():
        raise BadInput(
            Text("{project} is a project number; jupyter_tpu needs the project ID.", project=project[:40]),
            exists="No request was sent to the cloud.",
            hint=Text(
                "Set the ID with --project or {variable}; `gcloud projects list` shows your projects.",
                variable=PROJECT_VARIABLE,
            ),
        )
    return replace(settings, project=project)


_OPERATIONS = {
    "create": Text("create node {node} in {zone}"),
    "delete": Text("delete node {node} in {zone}"),
    "stop": Text("stop node {node} in {zone}"),
    "start": Text("start node {node} in {zone}"),
}
"""Descriptions of operations for error messages, by the verb in the operation's metadata."""


class GoogleCloud:
    """`CloudApi` over gRPC; the responses on `channel` must update `clock`."""

    def __init__(self, settings: CloudSettings, channel: grpc.aio.Channel, clock: CloudClock | None = None) -> None:
        self._settings = settings
        self._clock = clock or CloudClock()
        self._channel = channel
        host = settings.endpoint or _HOST
        self._client = tpu_v2.TpuAsyncClient(transport=TpuGrpcAsyncIOTransport(channel=channel, host=host))
        self._queue = QueueCalls(self._client, settings.project)

    @property
    def settings(self) -> CloudSettings:
        """See `CloudApi.settings`."""
        return self._settings

    @property
    def clock(self) -> CloudClock:
        """See `CloudApi.clock`."""
        return self._clock

    async def aclose(self) -> None:
        """See `CloudApi.aclose`."""
        await self._channel.close()

    async def list_nodes(self, zone: str = "-") -> NodeList:
        """See `CloudApi.list_nodes`."""
        nodes: list[Node] = []
        unreachable: set[str] = set()
        with translated(self._request(Text("list the nodes"), zone)):
            # Request large pages to save round trips; the API may return smaller ones.
            request = tpu_v2.ListNodesRequest(parent=self._parent(zone), page_size=500)
            pager = await self._client.list_nodes(request, **READ)
            async for page in pager.pages:
                message = tpu_v2.ListNodesResponse.pb(page)
                nodes += _readable(message.nodes)
                unreachable.update(plain(name.rpartition("/")[2], 100) for name in message.unreachable)
        return NodeList(nodes=tuple(sorted(nodes, key=lambda node: node.name)), unreachable=tuple(sorted(unreachable)))

    async def get_node(self, name: NodeName) -> Node:
        """See `CloudApi.get_node`."""
        with translated(self._node_request(Text("read node {node} in {zone}"), name)):
            message = await self._client.get_node(tpu_v2.GetNodeRequest(name=str(name)), **READ)
        return protos.node_of(tpu_v2.Node.pb(message))

    async def create_node(self, spec: NodeSpec) -> Operation:
        """See `CloudApi.create_node`."""
        about = replace(
            self._node_request(Text("create node {node} in {zone}"), spec.name, takes_capacity=True),
            accelerator_type=spec.accelerator_type,
            spec=spec,
        )
        with translated(about):
            request = tpu_v2.CreateNodeRequest(
                parent=spec.name.parent, node_id=spec.name.node_id, node=protos.node_to_create(spec)
            )
            answer = await self._client.create_node(request, **CHANGE)
        return protos.operation_of(answer.operation, about)

    async def delete_node(self, name: NodeName) -> Operation:
        """See `CloudApi.delete_node`."""
        about = self._node_request(Text("delete node {node} in {zone}"), name)
        with translated(about):
            answer = await self._client.delete_node(tpu_v2.DeleteNodeRequest(name=str(name)), **CHANGE)
        return protos.operation_of(answer.operation, about)

    async def stop_node(self, name: NodeName) -> Operation:
        """See `CloudApi.stop_node`."""
        about = self._node_request(Text("stop node {node} in {zone}"), name)
        with translated(about):
            answer = await self._client.stop_node(tpu_v2.StopNodeRequest(name=str(name)), **CHANGE)
        return protos.operation_of(answer.operation, about)

    async def start_node(self, name: NodeName) -> Operation:
        """See `CloudApi.start_node`."""
        about = self._node_request(Text("start node {node} in {zone}"), name, takes_capacity=True)
        with translated(about):
            answer = await self._client.start_node(tpu_v2.StartNodeRequest(name=str(name)), **CHANGE)
        return protos.operation_of(answer.operation, about)

    async def update_node_metadata(self, name: NodeName, metadata: Mapping[str, str]) -> Operation:
        """See `CloudApi.update_node_metadata`."""
        # The API replaces the whole map, so first read the other keys, such as SSH keys, and send them back.
        present = (await self.get_node(name)).metadata
        about = self._node_request(Text("change the metadata of node {node} in {zone}"), name)
        with translated(about):
            request = tpu_v2.UpdateNodeRequest(
                node=tpu_v2.Node(name=str(name), metadata={**present, **metadata}),
                update_mask=field_mask_pb2.FieldMask(paths=["metadata"]),
            )
            answer = await self._client.update_node(request, **CHANGE)
        return protos.operation_of(answer.operation, about)

    async def get_operation(self, name: str) -> Operation:
        """See `CloudApi.get_operation`."""
        with translated(self._request(Text("read an operation"))):
            message = await self._client.get_operation(operations_pb2.GetOperationRequest(name=name), **READ)
        return protos.operation_of(message, self._about(message))

    async def list_operations(self, zone: str) -> tuple[Operation, ...]:
        """See `CloudApi.list_operations`."""
        found: list[Operation] = []
        request = operations_pb2.ListOperationsRequest(name=self._parent(zone), page_size=500)
        with translated(self._request(Text("list the operations of {zone}", zone=zone), zone)):
            while True:
                page = await self._client.list_operations(request, **READ)
                found += [protos.operation_of(each, self._about(each)) for each in page.operations]
                request.page_token = page.next_page_token
                if not page.next_page_token:
                    return tuple(found)

    async def list_zones(self) -> tuple[str, ...]:
        """See `CloudApi.list_zones`."""
        found: list[str] = []
        request = locations_pb2.ListLocationsRequest(name=f"projects/{self._settings.project}", page_size=500)
        with translated(self._request(Text("list the zones"))):
            while True:
                page = await self._client.list_locations(request, **READ)
                found += [location.location_id for location in page.locations]
                request.page_token = page.next_page_token
                if not page.next_page_token:
                    return tuple(sorted(found))

    async def list_accelerator_types(self, zone: str) -> tuple[str, ...]:
        """See `CloudApi.list_accelerator_types`."""
        with translated(self._request(Text("list the accelerator types of {zone}", zone=zone), zone)):
            request = tpu_v2.ListAcceleratorTypesRequest(parent=self._parent(zone))
            pager = await self._client.list_accelerator_types(request, **READ)
            return tuple([each.type_ async for each in pager])

    async def list_runtime_versions(self, zone: str) -> tuple[str, ...]:
        """See `CloudApi.list_runtime_versions`."""
        with translated(self._request(Text("list the runtime versions of {zone}", zone=zone), zone)):
            request = tpu_v2.ListRuntimeVersionsRequest(parent=self._parent(zone))
            pager = await self._client.list_runtime_versions(request, **READ)
            return tuple([each.version async for each in pager])

    async def get_worker_identities(self, name: NodeName) -> tuple[WorkerIdentity, ...]:
        """See `CloudApi.get_worker_identities`."""
        with translated(self._node_request(Text("read the host keys of node {node} in {zone}"), name)):
            # an empty worker ID means all workers, as in gcloud's requests
            request = tpu_v2.GetGuestAttributesRequest(name=str(name), worker_ids=[""])
            answer = await self._client.get_guest_attributes(request, **READ)
        workers = tpu_v2.GetGuestAttributesResponse.pb(answer).guest_attributes
        return protos.identities_of(workers, is_emulated=self._settings.is_emulated)

    async def list_queued_resources(self, zone: str = "-") -> QueuedList:
        """See `CloudApi.list_queued_resources`."""
        return await self._queue.list(zone)

    async def create_queued_resource(
        self, spec: QueuedSpec, valid_for_s: float | None = None, *, run_for_s: float | None = None
    ) -> Operation:
        """See `CloudApi.create_queued_resource`."""
        if run_for_s is not None:
            return await create_flex_start(self._settings, spec, valid_for_s, run_for_s)
        return await self._queue.create(spec, valid_for_s)

    async def delete_queued_resource(self, name: QueuedName, *, force: bool = False) -> Operation:
        """See `CloudApi.delete_queued_resource`."""
        return await self._queue.delete(name, force=force)

    def _parent(self, zone: str) -> str:
        return f"projects/{self._settings.project}/locations/{zone}"

    def _request(self, what: str, zone: str = "") -> Request:
        zone = "" if zone == "-" else zone
        return Request(what=what, project=self._settings.project, zone=zone, takes_capacity=False)

    def _node_request(self, what: Text, name: NodeName, *, takes_capacity: bool = False) -> Request:
        return Request(
            what=what.with_arguments(node=repr(name.node_id), zone=name.zone),
            project=name.project,
            zone=name.zone,
            node_id=name.node_id,
            takes_capacity=takes_capacity,
        )

    def _about(self, message: operations_pb2.Operation) -> Request:
        """Describe an operation, by its verb and target, for its error message."""
        general = replace(self._request(Text("finish an operation")), takes_capacity=True)
        operation = protos.operation_of(message, general)
        try:
            what = _OPERATIONS.get(operation.verb, Text("change node {node} in {zone}"))
            takes_capacity = operation.verb not in ("stop", "delete")
            return self._node_request(what, NodeName.parse(operation.target), takes_capacity=takes_capacity)
        except BadInput:  # the operation's target is not a node
            return general


def _readable(messages: Any) -> Iterator[Node]:
    """Yield the nodes with valid names; only log other nodes, because no request can refer to them."""
    for message in messages:
        try:
            yield protos.node_of(message)
        except BadInput:
            log.warning("Left out of the list: a node with the unusual name %.200r", message.name)
