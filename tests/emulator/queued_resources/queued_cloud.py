"""Queued resources as tests ask for them, in a cloud whose time stands still unless a test moves it."""

from __future__ import annotations

import contextlib
from typing import Any

from google.auth.credentials import AnonymousCredentials
from google.cloud import tpu_v2
from googleapiclient import discovery

State = tpu_v2.QueuedResourceState.State
Initiator = tpu_v2.QueuedResourceState.StateInitiator
UNTIL_ACTIVE_S = 5 + 10 + 15 + 90
"""CREATING, ACCEPTED, WAITING_FOR_RESOURCES, PROVISIONING."""


class QueuedCloud:
    """google-cloud-tpu's asynchronous client for queued resources, and the control of the emulator."""

    def __init__(self, cloud: Any) -> None:
        self.cloud = cloud
        self.emulator = cloud.emulator
        self.control = cloud.control

    @property
    def client(self) -> Any:
        return self.cloud.client

    def name(self, queued_id: str = "q1") -> str:
        return f"{self.emulator.parent}/queuedResources/{queued_id}"

    def spec(self, node_id: str = "n1", **fields: Any) -> Any:
        """A spec of one v5litepod-8."""
        node = {"accelerator_type": self.emulator.accelerator_type, "runtime_version": self.emulator.runtime_version}
        node_spec = tpu_v2.QueuedResource.Tpu.NodeSpec(
            parent=self.emulator.parent, node=tpu_v2.Node(**{**node, **fields})
        )
        if node_id:
            node_spec.node_id = node_id
        return node_spec

    def slices(self, count: int, prefix: str = "") -> Any:
        node_spec = self.spec("")
        node_spec.multislice_params = {"node_count": count, "node_id_prefix": prefix}
        return node_spec

    async def ask(self, queued_id: str = "q1", *specs: Any, request_id: str = "", **fields: Any) -> Any:
        """The operation of a create; without specs, of one node n1."""
        queued = tpu_v2.QueuedResource(tpu={"node_spec": list(specs) or [self.spec()]}, **fields)
        request = tpu_v2.CreateQueuedResourceRequest(
            parent=self.emulator.parent, queued_resource_id=queued_id, queued_resource=queued, request_id=request_id
        )
        return await self.client.create_queued_resource(request)

    async def active(self, queued_id: str = "q1", *specs: Any, **fields: Any) -> None:
        await self.ask(queued_id, *specs, **fields)
        self.control.advance(UNTIL_ACTIVE_S)

    async def get(self, queued_id: str = "q1") -> tpu_v2.QueuedResource:
        return await self.client.get_queued_resource(name=self.name(queued_id))

    async def state(self, queued_id: str = "q1") -> Any:
        return (await self.get(queued_id)).state.state

    async def delete(self, queued_id: str = "q1", *, force: bool = False, request_id: str = "") -> Any:
        request = tpu_v2.DeleteQueuedResourceRequest(name=self.name(queued_id), force=force, request_id=request_id)
        return await self.client.delete_queued_resource(request)

    async def nodes(self) -> dict[str, Any]:
        """By id."""
        found = await self.client.list_nodes(parent=self.emulator.parent)
        return {node.name.rpartition("/")[2]: node async for node in found}

    async def listed(self) -> list[str]:
        found = await self.client.list_queued_resources(parent=f"projects/{self.emulator.project}/locations/-")
        return [queued.name.rpartition("/")[2] async for queued in found]

    # -- what only v2alpha1 can say, by REST

    def alpha(self, collection: str, method: str, **arguments: Any) -> dict[str, Any]:
        """Call a method of a collection (``queuedResources``, ``nodes``) through googleapiclient."""
        service = discovery.build(
            "tpu",
            "v2alpha1",
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": self.emulator.rest},
            static_discovery=True,
        )
        with contextlib.closing(service):
            locations = service.projects().locations()
            answer: dict[str, Any] = getattr(getattr(locations, collection)(), method)(**arguments).execute()
        return answer

    def alpha_body(self, **fields: Any) -> dict[str, Any]:
        node = {"acceleratorType": self.emulator.accelerator_type, "runtimeVersion": self.emulator.runtime_version}
        return {"tpu": {"nodeSpec": [{"parent": self.emulator.parent, "nodeId": "n1", "node": node}]}, **fields}

    def ask_alpha(self, queued_id: str = "q1", **fields: Any) -> dict[str, Any]:
        body = self.alpha_body(**fields)
        parent = self.emulator.parent
        return self.alpha("queuedResources", "create", parent=parent, queuedResourceId=queued_id, body=body)

    def get_alpha(self, queued_id: str = "q1") -> dict[str, Any]:
        return self.alpha("queuedResources", "get", name=self.name(queued_id))
