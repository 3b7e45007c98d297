"""Google's own clients, each behind the same few verbs, so that one test drives them all."""

from __future__ import annotations

import asyncio
import functools
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import tpu_v2, tpu_v2alpha1
from google.protobuf import field_mask_pb2, json_format
from googleapiclient import discovery
from googleapiclient import errors as discovery_errors
from tiers import NIGHTLY

NEVER = threading.Event()
POLL_S = 0.05
PACKAGES: dict[str, Any] = {"v2": tpu_v2, "v2alpha1": tpu_v2alpha1}


@dataclass
class Refused(Exception):
    """What a client raised, in one form: HTTP status, message, and the types of the details."""

    status: int
    message: str
    details: list[str]


@dataclass
class Failed(Exception):
    """How an operation ended, in one form: google.rpc.Code and message."""

    code: int
    message: str


def resource_json(resource: Any) -> dict[str, Any]:
    """A node or a queued resource of either version."""
    return json_format.MessageToDict(type(resource).pb(resource))


def refusal_of(error: exceptions.GoogleAPICallError) -> Refused:
    return Refused(int(error.code), str(error.message), [_kind(each) for each in error.details])


def _kind(detail: Any) -> str:
    """The REST transport leaves details as JSON, the gRPC ones unpack them."""
    return str(detail["@type"]).rpartition(".")[2] if isinstance(detail, dict) else type(detail).__name__


class PackagedDriver:
    """The clients of google-cloud-tpu: each verb makes the version's own request and hands it to `_ask` or `_run`."""

    def __init__(self, version: str, client: Any) -> None:
        self.version = version
        self.types = PACKAGES[version]
        self.client = client

    async def create(self, parent: str, node_id: str, node: dict[str, Any]) -> dict[str, Any]:
        given = {"parent": parent, "node_id": node_id, "node": self._new("Node", node)}
        return resource_json(await self._run(self.client.create_node, **given))

    async def get(self, name: str) -> dict[str, Any]:
        return resource_json(await self._ask(self.client.get_node, name=name))

    async def list(self, parent: str) -> list[str]:
        return [node.name for node in await self._all(self.client.list_nodes, parent=parent)]

    async def set_labels(self, name: str, labels: dict[str, str]) -> dict[str, Any]:
        mask = field_mask_pb2.FieldMask(paths=["labels"])
        node = self.types.Node(name=name, labels=labels)
        return resource_json(await self._run(self.client.update_node, node=node, update_mask=mask))

    async def stop(self, name: str) -> dict[str, Any]:
        return resource_json(await self._run(self.client.stop_node, self.types.StopNodeRequest(name=name)))

    async def start(self, name: str) -> dict[str, Any]:
        return resource_json(await self._run(self.client.start_node, self.types.StartNodeRequest(name=name)))

    async def delete(self, name: str) -> None:
        await self._run(self.client.delete_node, name=name)

    async def create_queued(self, parent: str, queued_id: str, queued: dict[str, Any]) -> dict[str, Any]:
        given = {"parent": parent, "queued_resource_id": queued_id}
        resource = self._new("QueuedResource", queued)
        return resource_json(await self._run(self.client.create_queued_resource, **given, queued_resource=resource))

    async def get_queued(self, name: str) -> dict[str, Any]:
        return resource_json(await self._ask(self.client.get_queued_resource, name=name))

    async def list_queued(self, parent: str) -> list[str]:
        return [each.name for each in await self._all(self.client.list_queued_resources, parent=parent)]

    async def delete_queued(self, name: str, force: bool = False) -> None:
        request = self.types.DeleteQueuedResourceRequest(name=name, force=force)
        await self._run(self.client.delete_queued_resource, request)

    def _new(self, kind: str, fields: dict[str, Any]) -> Any:
        return getattr(self.types, kind).from_json(json.dumps(fields))

    async def _ask(self, method: Any, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError

    async def _all(self, method: Any, **named: Any) -> list[Any]:
        """All resources of a list, page by page."""
        raise NotImplementedError

    async def _run(self, method: Any, *arguments: Any, **named: Any) -> Any:
        """The result of the operation that a method starts."""
        raise NotImplementedError


class GrpcAsyncDriver(PackagedDriver):
    """`TpuAsyncClient` over grpc.aio."""

    def __init__(self, version: str, emulator: Any) -> None:
        self._channel = grpc.aio.insecure_channel(emulator.grpc)
        transport = PACKAGES[version].services.tpu.transports.TpuGrpcAsyncIOTransport(channel=self._channel)
        super().__init__(version, PACKAGES[version].TpuAsyncClient(transport=transport))

    async def close(self) -> None:
        await self._channel.close()

    async def _ask(self, method: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return await method(*arguments, **named)
        except exceptions.GoogleAPICallError as error:
            raise refusal_of(error) from error

    async def _all(self, method: Any, **named: Any) -> list[Any]:
        return [each async for each in await self._ask(method, **named)]

    async def _run(self, method: Any, *arguments: Any, **named: Any) -> Any:
        operation = await self._ask(method, *arguments, **named)
        try:
            async with asyncio.timeout(120):
                while not await operation.done():  # noqa: ASYNC110 - the API offers nothing but asking again
                    await asyncio.sleep(POLL_S)
            return await operation.result()
        except exceptions.GoogleAPICallError as error:
            status = operation.operation.error
            raise Failed(status.code, status.message) from error


class SyncDriver(PackagedDriver):
    """`TpuClient`, over gRPC or REST; its calls block, so they run in threads."""

    def __init__(self, version: str, transport: Any, close: Callable[[], None]) -> None:
        super().__init__(version, PACKAGES[version].TpuClient(transport=transport))
        self._close = close

    async def close(self) -> None:
        self._close()

    async def _ask(self, method: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return await asyncio.to_thread(method, *arguments, **named)
        except exceptions.GoogleAPICallError as error:
            raise refusal_of(error) from error

    async def _all(self, method: Any, **named: Any) -> list[Any]:
        return await self._ask(lambda: list(method(**named)))

    async def _run(self, method: Any, *arguments: Any, **named: Any) -> Any:
        operation = await self._ask(method, *arguments, **named)
        try:
            return await asyncio.to_thread(_result_of, operation)
        except exceptions.GoogleAPICallError as error:
            status = operation.operation.error
            raise Failed(status.code, status.message) from error


def _result_of(operation: Any) -> Any:
    """As `operation.result`, which asks again only after a second."""
    while not operation.done():
        NEVER.wait(POLL_S)
    return operation.result()


class DiscoveryDriver:
    """googleapiclient with the discovery document that it ships."""

    def __init__(self, version: str, emulator: Any) -> None:
        self.version = version
        self._service = discovery.build(
            "tpu",
            version,
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": f"{emulator.rest}/"},
            static_discovery=True,
        )
        self._locations = self._service.projects().locations()

    async def close(self) -> None:
        self._service.close()

    async def create(self, parent: str, node_id: str, node: dict[str, Any]) -> dict[str, Any]:
        return await self._run(self._locations.nodes().create(parent=parent, nodeId=node_id, body=node))

    async def get(self, name: str) -> dict[str, Any]:
        return await self._ask(self._locations.nodes().get(name=name))

    async def list(self, parent: str) -> list[str]:
        answer = await self._ask(self._locations.nodes().list(parent=parent))
        return [node["name"] for node in answer.get("nodes", [])]

    async def set_labels(self, name: str, labels: dict[str, str]) -> dict[str, Any]:
        body = {**await self.get(name), "labels": labels}
        return await self._run(self._locations.nodes().patch(name=name, body=body, updateMask="labels"))

    async def stop(self, name: str) -> dict[str, Any]:
        return await self._run(self._locations.nodes().stop(name=name, body={}))

    async def start(self, name: str) -> dict[str, Any]:
        return await self._run(self._locations.nodes().start(name=name, body={}))

    async def delete(self, name: str) -> None:
        await self._run(self._locations.nodes().delete(name=name))

    async def create_queued(self, parent: str, queued_id: str, queued: dict[str, Any]) -> dict[str, Any]:
        queue = self._locations.queuedResources()
        return await self._run(queue.create(parent=parent, queuedResourceId=queued_id, body=queued))

    async def get_queued(self, name: str) -> dict[str, Any]:
        return await self._ask(self._locations.queuedResources().get(name=name))

    async def list_queued(self, parent: str) -> list[str]:
        answer = await self._ask(self._locations.queuedResources().list(parent=parent))
        return [each["name"] for each in answer.get("queuedResources", [])]

    async def delete_queued(self, name: str, force: bool = False) -> None:
        await self._run(self._locations.queuedResources().delete(name=name, force=force))

    async def _ask(self, request: Any) -> Any:
        try:
            return await asyncio.to_thread(request.execute)
        except discovery_errors.HttpError as error:
            details = error.error_details if isinstance(error.error_details, list) else []  # a message without any
            kinds = [each["@type"].rpartition(".")[2] for each in details]
            raise Refused(error.status_code, error.reason, kinds) from error

    async def _run(self, request: Any) -> Any:
        operation = await self._ask(request)
        while not operation["done"]:
            await asyncio.sleep(POLL_S)
            operation = await self._ask(self._locations.operations().get(name=operation["name"]))
        if "error" in operation:
            raise Failed(operation["error"]["code"], operation["error"]["message"])
        return operation["response"]


def _grpc_sync(version: str, emulator: Any) -> SyncDriver:
    channel = grpc.insecure_channel(emulator.grpc)
    transport = PACKAGES[version].services.tpu.transports.TpuGrpcTransport(channel=channel)
    return SyncDriver(version, transport, channel.close)


def _rest(version: str, emulator: Any) -> SyncDriver:
    address = emulator.rest.removeprefix("http://")
    transport = tpu_v2.services.tpu.transports.TpuRestTransport(
        host=address, credentials=AnonymousCredentials(), url_scheme="http"
    )
    return SyncDriver(version, transport, transport.close)


DRIVERS: dict[str, Callable[[Any], Any]] = {
    f"{kind}-{version}": functools.partial(make, version)
    for version in PACKAGES
    for kind, make in (
        ("grpc-async", GrpcAsyncDriver),
        ("grpc-sync", _grpc_sync),
        ("rest", _rest),
        ("discovery", DiscoveryDriver),
    )
    if (kind, version) != ("rest", "v2alpha1")  # google-cloud-tpu has no REST transport for v2alpha1
}


# Each kind of client, and each version of the API, is in one of these.
OFTEN = ("grpc-async-v2", "rest-v2", "discovery-v2alpha1")


@pytest.fixture(params=[*OFTEN, *(pytest.param(name, marks=[NIGHTLY]) for name in DRIVERS if name not in OFTEN)])
async def driver(request: pytest.FixtureRequest, emulator: Any) -> AsyncIterator[Any]:
    """Each of Google's clients in turn."""
    async with AsyncExitStack() as stack:
        opened = DRIVERS[request.param](emulator)
        stack.push_async_callback(opened.close)
        yield opened


@pytest.fixture
def refused() -> type[Refused]:
    return Refused


@pytest.fixture
def failed() -> type[Failed]:
    return Failed
