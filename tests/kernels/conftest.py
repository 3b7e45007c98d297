"""A READY node on an emulated cloud and its kernelspec; shared by the tests of a module, because a node is not free."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from emulator import ZONE, Emulator, EmulatorPool

from jupyter_tpu.cloud import CloudApi, CloudSettings, connect_cloud
from jupyter_tpu.emulator.control.client import EmulatorControl
from jupyter_tpu.journal.paths import data_dir as our_data_dir
from jupyter_tpu.kernels.connections.worker import Worker, WorkerKey
from jupyter_tpu.kernels.kernelspecs import kernels_folder, write_kernelspec
from jupyter_tpu.link import Link
from jupyter_tpu.models import Node, NodeName, NodeSpec, Operation
from jupyter_tpu.ssh import UserKey, login_name

PROJECT = "demo-project"


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """An emulated cloud in a process of its own."""

    settings: CloudSettings
    control: EmulatorControl

    @classmethod
    def of(cls, emulator: Emulator) -> Cloud:
        return cls(settings=emulator.settings, control=emulator.control)

    def create_node(
        self,
        node_id: str,
        *,
        with_our_key: bool = True,
        accelerator_type: str = "v5litepod-8",
        runtime_version: str = "v2-alpha-tpuv5-lite",
        zone: str = ZONE,
    ) -> Node:
        """A READY node that has published its host keys."""
        name = NodeName(project=PROJECT, zone=zone, node_id=node_id)
        key = UserKey.load_or_create(our_data_dir() / "ssh")
        spec = NodeSpec(
            name=name,
            accelerator_type=accelerator_type,
            runtime_version=runtime_version,
            metadata={"ssh-keys": f"{login_name()}:{key.public_line}"} if with_our_key else {},
        )
        asyncio.run(self._do(lambda cloud: cloud.create_node(spec)))
        return asyncio.run(self._published(name))

    def stop_node(self, name: NodeName) -> None:
        asyncio.run(self._do(lambda cloud: cloud.stop_node(name)))

    def start_node(self, name: NodeName) -> Node:
        asyncio.run(self._do(lambda cloud: cloud.start_node(name)))
        return asyncio.run(self._published(name))

    def delete_node(self, name: NodeName) -> None:
        asyncio.run(self._do(lambda cloud: cloud.delete_node(name)))

    def is_billed(self, node: Node) -> bool:
        """By the emulator's ledger."""
        return str(node.name) in self.control.billing()

    def home_of(self, node: Node, worker_id: int = 0) -> Path:
        """The home folder of one of the node's workers."""
        return Path(self.control.workers(str(node.name))[worker_id]["home"])

    def kernels_on(self, node: Node) -> list[Path]:
        """What the node's first worker keeps of kernels."""
        return list((self.home_of(node) / ".jupyter-tpu" / "kernels").glob("*"))

    async def _do(self, ask: Callable[[CloudApi], Awaitable[Operation]]) -> None:
        cloud = await connect_cloud(self.settings)
        operation = await ask(cloud)
        async with asyncio.timeout(120):
            while not operation.done:
                await asyncio.sleep(0.05)
                operation = await cloud.get_operation(operation.name)
        await cloud.aclose()
        assert operation.error is None

    async def _published(self, name: NodeName) -> Node:
        cloud = await connect_cloud(self.settings)
        async with asyncio.timeout(120):
            while not await _has_host_keys(cloud, name):  # noqa: ASYNC110 - a cloud answers questions, it never calls
                await asyncio.sleep(0.05)
        node = await cloud.get_node(name)
        await cloud.aclose()
        return node


async def _has_host_keys(cloud: CloudApi, name: NodeName) -> bool:
    identities = await cloud.get_worker_identities(name)
    return all(identity.host_keys for identity in identities)


@pytest.fixture(scope="module")
def folders() -> Iterator[Path]:
    """Jupyter's folders and ours, for all tests of a module."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="jt-") as root:
        for name in ("JUPYTER_TPU_DATA", "JUPYTER_DATA", "JUPYTER_CONFIG", "JUPYTER_RUNTIME"):
            patch.setenv(f"{name}_DIR", str(Path(root) / name.lower()))
        patch.setenv("IPYTHONDIR", str(Path(root) / "ipython"))
        patch.setenv("XDG_RUNTIME_DIR", root)
        yield Path(root)


@pytest.fixture(scope="module")
def shared_emulator(emulator_pool: EmulatorPool) -> Iterator[Emulator]:
    """What `cloud` is in; modules that want another kind replace it."""
    with emulator_pool.lent() as emulator:
        yield emulator


@pytest.fixture(scope="module")
def cloud(shared_emulator: Emulator) -> Cloud:
    """A cloud whose workers have the embedded SSH server."""
    return Cloud.of(shared_emulator)


@pytest.fixture(scope="module")
def openssh_cloud(emulator_pool: EmulatorPool) -> Iterator[Cloud]:
    """A cloud whose workers have the machine's own SSH server."""
    with emulator_pool.lent("--sshd", "system") as emulator:
        yield Cloud.of(emulator)


@pytest.fixture(scope="module")
def bare_cloud(emulator_pool: EmulatorPool) -> Iterator[Cloud]:
    """A cloud whose workers have a python3 without ipykernel, and no uv."""
    with emulator_pool.lent("--worker-image", "bare") as emulator:
        yield Cloud.of(emulator)


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_behind(folders: Path) -> Iterator[None]:
    """No thread of ours and no folder of sockets outlives the tests of a module."""
    yield
    for thread in threading.enumerate():
        if thread.name == "jupyter-tpu links":
            thread.join(60)  # it may have a last wish to carry out
    assert "jupyter-tpu links" not in {thread.name for thread in threading.enumerate()}
    assert list(folders.glob("jtpu-kernel-*")) == []


@pytest.fixture(scope="module")
def node(cloud: Cloud) -> Node:
    return cloud.create_node("my-node")


@pytest.fixture
async def open_link(cloud: Cloud) -> AsyncIterator[Callable[[Node], Awaitable[Link]]]:
    """Opens links to the agents of nodes, which are closed after the test."""
    links: list[Link] = []

    async def open_one(node: Node) -> Link:
        worker = Worker(WorkerKey(node=node.name, endpoint=cloud.settings.endpoint), lambda _progress: None)
        links.append(Link(worker.connect, memory=worker.preparation))
        await links[-1].open()
        return links[-1]

    yield open_one
    for link in links:
        await link.close()


@pytest.fixture
async def make_node(cloud: Cloud) -> AsyncIterator[Callable[[str], Awaitable[Node]]]:
    """Nodes of a test's own; what is left of them goes with it."""
    made: list[Node] = []

    async def make(node_id: str) -> Node:
        made.append(await asyncio.to_thread(cloud.create_node, node_id))
        return made[-1]

    yield make
    for node in made:
        if cloud.is_billed(node):
            await asyncio.to_thread(cloud.delete_node, node.name)


@pytest.fixture(scope="module")
def kernel_name(cloud: Cloud, node: Node) -> str:
    """The kernelspec of the node."""
    return write_kernelspec(node, cloud.settings)


@pytest.fixture(scope="module")
def slice_node(cloud: Cloud) -> Node:
    """A node with two workers."""
    kind = {"accelerator_type": "v4-16", "runtime_version": "tpu-ubuntu2204-base", "zone": "us-central2-b"}
    return cloud.create_node("my-slice", **kind)


@pytest.fixture(scope="module")
def slice_kernel_name(cloud: Cloud, slice_node: Node) -> str:
    """The kernelspec of all workers of that node."""
    return write_kernelspec(slice_node, cloud.settings)


@pytest.fixture(scope="module")
def argv_kernel_name(kernel_name: str) -> str:
    """The same kernelspec for a front end that knows no provisioners."""
    return without_provisioner(kernel_name)


@pytest.fixture(scope="module")
def openssh_kernel_name(openssh_cloud: Cloud) -> str:
    """The kernelspec of a node whose worker has the machine's own SSH server."""
    return write_kernelspec(openssh_cloud.create_node("openssh-node"), openssh_cloud.settings)


@pytest.fixture(scope="module")
def openssh_argv_kernel_name(openssh_kernel_name: str) -> str:
    return without_provisioner(openssh_kernel_name)


def without_provisioner(kernel_name: str) -> str:
    copy = kernels_folder() / f"{kernel_name}-argv"
    shutil.copytree(kernels_folder() / kernel_name, copy, dirs_exist_ok=True)
    spec = json.loads((copy / "kernel.json").read_text())
    del spec["metadata"]["kernel_provisioner"]
    (copy / "kernel.json").write_text(json.dumps(spec))
    return copy.name
