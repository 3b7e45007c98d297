"""Ways into the emulated cloud and its workers that these tests share."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh
import grpc.aio
import pytest
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcAsyncIOTransport
from paper_emulator import PaperEmulator

USER = getpass.getuser()


async def finished(operation: Any) -> Any:
    """Its result, asked for more often than the client's own second allows; the API offers nothing but asking."""
    async with asyncio.timeout(120):
        while not await operation.done():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return await operation.result()


class Cloud:
    """google-cloud-tpu's asynchronous client, with the few calls that most tests need."""

    def __init__(self, emulator: Any) -> None:
        self.emulator = emulator
        self.control = emulator.control
        self._connect()

    def _connect(self) -> None:
        self._channel = grpc.aio.insecure_channel(self.emulator.grpc)
        transport = TpuGrpcAsyncIOTransport(channel=self._channel, host=self.emulator.grpc)
        self.client = tpu_v2.TpuAsyncClient(transport=transport)

    async def close(self) -> None:
        await self._channel.close()

    async def reconnect(self) -> None:
        await self.close()
        self._connect()

    async def ask_for_node(self, node_id: str = "n1", **fields: Any) -> Any:
        """The operation of a create; `fields` replace those of a plain v5litepod-8."""
        emulator = self.emulator
        given = {"accelerator_type": emulator.accelerator_type, "runtime_version": emulator.runtime_version, **fields}
        return await self.client.create_node(parent=emulator.parent, node_id=node_id, node=tpu_v2.Node(**given))

    async def create(self, node_id: str = "n1", **fields: Any) -> tpu_v2.Node:
        return await finished(await self.ask_for_node(node_id, **fields))

    async def get(self, node_id: str = "n1") -> tpu_v2.Node:
        return await self.client.get_node(name=self.emulator.node_name(node_id))

    async def stop(self, node_id: str = "n1") -> tpu_v2.Node:
        request = tpu_v2.StopNodeRequest(name=self.emulator.node_name(node_id))
        return await finished(await self.client.stop_node(request))

    async def start(self, node_id: str = "n1") -> tpu_v2.Node:
        request = tpu_v2.StartNodeRequest(name=self.emulator.node_name(node_id))
        return await finished(await self.client.start_node(request))

    async def delete(self, node_id: str = "n1") -> None:
        await finished(await self.client.delete_node(name=self.emulator.node_name(node_id)))

    async def guest_items(self, node_id: str = "n1", worker_ids: tuple[str, ...] = ("",)) -> list[dict[str, str]]:
        """Guest attributes of each worker, as ``namespace/key`` → value."""
        name = self.emulator.node_name(node_id)
        request = tpu_v2.GetGuestAttributesRequest(name=name, worker_ids=worker_ids)
        answer = await self.client.get_guest_attributes(request)
        return [
            {f"{item.namespace}/{item.key}": item.value for item in worker.query_value.items}
            for worker in answer.guest_attributes
        ]


@pytest.fixture
async def connect_cloud() -> AsyncIterator[Callable[[Any], Cloud]]:
    """Opens clients of emulators that a test makes itself."""
    opened: list[Cloud] = []

    def connect(emulator: Any) -> Cloud:
        opened.append(Cloud(emulator))
        return opened[-1]

    yield connect
    for cloud in opened:
        await cloud.close()


@pytest.fixture
async def cloud(emulator: Any, connect_cloud: Callable[[Any], Cloud]) -> Cloud:
    return connect_cloud(emulator)


@dataclass
class UserKey:
    """A key pair of a user; `ssh_keys` is what goes in a node's metadata."""

    path: Path
    public: str

    @property
    def metadata(self) -> dict[str, str]:
        return {"ssh-keys": f"{USER}:{self.public} me"}


@pytest.fixture
def user_key(tmp_path: Path) -> UserKey:
    path = tmp_path / "id_ed25519"
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(path)
    path.chmod(0o600)
    return UserKey(path, key.export_public_key().decode().strip())


@pytest.fixture
def paper_emulator(tmp_path: Path) -> Iterator[PaperEmulator]:
    """An emulator whose workers exist on paper only; its clock stands still."""
    emulator = PaperEmulator(tmp_path)
    emulator.start()
    yield emulator
    emulator.close()


Login = Callable[..., Awaitable[asyncssh.SSHClientConnection]]


@pytest.fixture
async def login(user_key: UserKey) -> AsyncIterator[Login]:
    """Logs in to a worker from its guest attributes, host key pinned."""
    opened: list[asyncssh.SSHClientConnection] = []

    async def connect(items: dict[str, str], **options: Any) -> asyncssh.SSHClientConnection:
        settings: dict[str, Any] = {
            "username": USER,
            "client_keys": [str(user_key.path)],
            "known_hosts": asyncssh.import_known_hosts(f"* ssh-ed25519 {items['hostkeys/ssh-ed25519']}\n"),
            "config": None,
            "agent_path": None,
            **options,
        }
        opened.append(await asyncssh.connect("127.0.0.1", int(items["emulator/ssh-port"]), **settings))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.abort()
        await connection.wait_closed()
