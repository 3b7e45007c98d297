"""Google's own clients, each behind the same few verbs, so that one test drives them all."""

from __future__ import annotations

import asyncio
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
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu import transports
from google.protobuf import field_mask_pb2, json_format
from googleapiclient import discovery
from googleapiclient import errors as discovery_errors

NEVER = threading.Event()


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


def node_json(node: Any) -> dict[str, Any]:
    return json_format.MessageToDict(tpu_v2.Node.pb(node))


def refusal_of(error: exceptions.GoogleAPICallError) -> Refused:
    return Refused(int(error.code), str(error.message), [_kind(each) for each in error.details])


def _kind(detail: Any) -> str:
    """The REST transport leaves details as JSON, the gRPC ones unpack them."""
    return str(detail["@type"]).rpartition(".")[2] if isinstance(detail, dict) else type(detail).__name__


class GrpcAsyncDriver:
    """`TpuAsyncClient` over grpc.aio."""

    def __init__(self, emulator: Any) -> None:
        self._channel = grpc.aio.insecure_channel(emulator.grpc)
        transport = transports.TpuGrpcAsyncIOTransport(channel=self._channel, host=emulator.grpc)
        self.client = tpu_v2.TpuAsyncClient(transport=transport)

    async def close(self) -> None:
        await self._channel.close()

    async def create(self, parent: str, node_id: str, node: dict[str, Any]) -> dict[str, Any]:
        return node_json(await self._run(self.client.create_node(parent=parent, node_id=node_id, node=_node(node))))

    async def get(self, name: str) -> dict[str, Any]:
        return node_json(await self._ask(self.client.get_node(name=name)))

    async def list(self, parent: str) -> list[str]:
        return [node.name async for node in await self._ask(self.client.list_nodes(parent=parent))]

    async def set_labels(self, name: str, labels: dict[str, str]) -> dict[str, Any]:
        mask = field_mask_pb2.FieldMask(paths=["labels"])
        node = tpu_v2.Node(name=name, labels=labels)
        return node_json(await self._run(self.client.update_node(node=node, update_mask=mask)))

    async def stop(self, name: str) -> dict[str, Any]:
        return node_json(await self._run(self.client.stop_node(tpu_v2.StopNodeRequest(name=name))))

    async def start(self, name: str) -> dict[str, Any]:
        return node_json(await self._run(self.client.start_node(tpu_v2.StartNodeRequest(name=name))))

    async def delete(self, name: str) -> None:
        await self._run(self.client.delete_node(name=name))

    async def _ask(self, call: Any) -> Any:
        try:
            return await call
        except exceptions.GoogleAPICallError as error:
            raise refusal_of(error) from error

    async def _run(self, call: Any) -> Any:
        operation = await self._ask(call)
        try:
            return await operation.result(timeout=30)
        except exceptions.GoogleAPICallError as error:
            status = operation.operation.error
            raise Failed(status.code, status.message) from error


class SyncDriver:
    """`TpuClient`, over gRPC or REST; its calls block, so they run in threads."""

    def __init__(self, transport: Any, close: Callable[[], None]) -> None:
        self.client = tpu_v2.TpuClient(transport=transport)
        self.close_channel = close

    async def close(self) -> None:
        self.close_channel()

    async def create(self, parent: str, node_id: str, node: dict[str, Any]) -> dict[str, Any]:
        return node_json(
            await self._run(lambda: self.client.create_node(parent=parent, node_id=node_id, node=_node(node)))
        )

    async def get(self, name: str) -> dict[str, Any]:
        return node_json(await self._ask(lambda: self.client.get_node(name=name)))

    async def list(self, parent: str) -> list[str]:
        return await self._ask(lambda: [node.name for node in self.client.list_nodes(parent=parent)])

    async def set_labels(self, name: str, labels: dict[str, str]) -> dict[str, Any]:
        mask = field_mask_pb2.FieldMask(paths=["labels"])
        node = tpu_v2.Node(name=name, labels=labels)
        return node_json(await self._run(lambda: self.client.update_node(node=node, update_mask=mask)))

    async def stop(self, name: str) -> dict[str, Any]:
        return node_json(await self._run(lambda: self.client.stop_node(tpu_v2.StopNodeRequest(name=name))))

    async def start(self, name: str) -> dict[str, Any]:
        return node_json(await self._run(lambda: self.client.start_node(tpu_v2.StartNodeRequest(name=name))))

    async def delete(self, name: str) -> None:
        await self._run(lambda: self.client.delete_node(name=name))

    async def _ask(self, call: Callable[[], Any]) -> Any:
        try:
            return await asyncio.to_thread(call)
        except exceptions.GoogleAPICallError as error:
            raise refusal_of(error) from error

    async def _run(self, call: Callable[[], Any]) -> Any:
        operation = await self._ask(call)
        try:
            return await asyncio.to_thread(operation.result, timeout=30)
        except exceptions.GoogleAPICallError as error:
            status = operation.operation.error
            raise Failed(status.code, status.message) from error


class DiscoveryDriver:
    """googleapiclient with the discovery document that it ships."""

    def __init__(self, emulator: Any) -> None:
        self._service = discovery.build(
            "tpu",
            "v2",
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

    async def _ask(self, request: Any) -> Any:
        try:
            return await asyncio.to_thread(request.execute)
        except discovery_errors.HttpError as error:
            kinds = [each["@type"].rpartition(".")[2] for each in error.error_details or []]
            raise Refused(error.status_code, error.reason, kinds) from error

    async def _run(self, request: Any) -> Any:
        operation = await self._ask(request)
        while not operation["done"]:
            await asyncio.to_thread(NEVER.wait, 0.05)  # as clients do: the API offers nothing but asking again
            operation = await self._ask(self._locations.operations().get(name=operation["name"]))
        if "error" in operation:
            raise Failed(operation["error"]["code"], operation["error"]["message"])
        return operation["response"]


def _node(fields: dict[str, Any]) -> tpu_v2.Node:
    return tpu_v2.Node.from_json(json.dumps(fields))


def _grpc_sync(emulator: Any) -> SyncDriver:
    channel = grpc.insecure_channel(emulator.grpc)
    return SyncDriver(transports.TpuGrpcTransport(channel=channel, host=emulator.grpc), channel.close)


def _rest(emulator: Any) -> SyncDriver:
    address = emulator.rest.removeprefix("http://")
    transport = transports.TpuRestTransport(host=address, credentials=AnonymousCredentials(), url_scheme="http")
    return SyncDriver(transport, transport.close)


DRIVERS: dict[str, Callable[[Any], Any]] = {
    "grpc-async": GrpcAsyncDriver,
    "grpc-sync": _grpc_sync,
    "rest": _rest,
    "discovery": DiscoveryDriver,
}


@pytest.fixture(params=DRIVERS)
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
