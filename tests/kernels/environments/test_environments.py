"""Kernels in the environment of a framework: its kernelspec, the folder's requirements, and what a lost node had."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from emulator import Emulator, own_emulator
from jupyter_client.manager import AsyncKernelManager
from tiny_wheels import JAX, write_index

from jupyter_tpu.errors import EnvironmentFailed
from jupyter_tpu.kernels.agents.agent_calls import call_agent, open_agent_link
from jupyter_tpu.kernels.connections.worker import WorkerKey
from jupyter_tpu.kernels.environments.environment import make_environment
from jupyter_tpu.kernels.environments.saved_environments import SavedEnvironment, SavedEnvironments
from jupyter_tpu.kernels.kernelspecs import kernelspec_names, list_kernelspecs, sync_kernelspecs
from jupyter_tpu.models import Node, NodeName

if TYPE_CHECKING:
    from conftest import Cloud


@pytest.fixture(scope="module")
def index(folders: Path) -> dict[str, str]:
    return write_index(folders / "wheels")


@pytest.fixture(scope="module")
def shared_emulator(index: dict[str, str]) -> Iterator[Emulator]:
    """One whose workers know this index alone."""
    with own_emulator(environment={**os.environ, **index}) as emulator:
        yield emulator


def key_of(cloud: Cloud, node: Node) -> WorkerKey:
    return WorkerKey(node=node.name, endpoint=cloud.settings.endpoint)


def memory_of(cloud: Cloud, node: Node) -> SavedEnvironments:
    return SavedEnvironments(node.name, cloud.settings.endpoint)


def remembered(cloud: Cloud, node: Node) -> SavedEnvironment:
    found = memory_of(cloud, node).find("jax")
    assert found
    return found


def kernel_name(cloud: Cloud, node: Node) -> str:
    """The kernelspec of the node's environment."""
    sync_kernelspecs([node], cloud.settings, complete=False)
    (found,) = [spec for spec in list_kernelspecs() if (spec.node_name, spec.environment) == (str(node.name), "jax")]
    return found.name


async def make_jax(cloud: Cloud, node: Node) -> None:
    async with open_agent_link(key_of(cloud, node)) as link:
        memory_of(cloud, node).save(await make_environment(link.call, {"framework": "jax"}, lambda _step: None))


@pytest.fixture
async def jax_node(cloud: Cloud, node: Node) -> Node:
    """A node with an environment for JAX, whatever has become of it in another test."""
    memory_of(cloud, node).remove("jax")
    await make_jax(cloud, node)
    return node


@contextlib.asynccontextmanager
async def kernel(name: str, folder: Path) -> AsyncIterator[AsyncKernelManager]:
    manager = AsyncKernelManager(kernel_name=name)
    await manager.start_kernel(cwd=str(folder))
    try:
        yield manager
    finally:
        await manager.shutdown_kernel(now=True)


async def printed(manager: AsyncKernelManager, code: str) -> str:
    texts: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        texts.append(message["content"].get("text", "") or "\n".join(message["content"].get("traceback", ())))

    client = manager.client()
    client.start_channels(hb=False)
    try:
        await client.execute_interactive(code, timeout=90, output_hook=hear)
    finally:
        client.stop_channels()
    return "".join(texts).strip()


async def until_remembered(cloud: Cloud, node: Node, added: tuple[str, ...]) -> None:
    async with asyncio.timeout(60):
        while remembered(cloud, node).added != added:  # noqa: ASYNC110 - a file tells nobody of its change
            await asyncio.sleep(0.05)


async def test_an_environment_has_a_kernelspec_for_as_long_as_its_node_is_there(cloud: Cloud, jax_node: Node) -> None:
    node, name = jax_node, kernel_name(cloud, jax_node)
    assert name == "tpu-my-node-us-central1-a-jax"
    (spec,) = [spec for spec in list_kernelspecs() if spec.name == name]
    assert spec.display_name == "JAX 0.10 · v5litepod-8 · my-node"
    assert kernelspec_names(cloud.settings)[str(node.name)] == "tpu-my-node-us-central1-a"
    assert not sync_kernelspecs([node], cloud.settings, complete=False)
    assert sync_kernelspecs([], cloud.settings)
    assert [spec for spec in list_kernelspecs() if spec.node_name == str(node.name)] == []


async def test_the_folder_of_a_notebook_says_what_else_is_installed(
    cloud: Cloud, jax_node: Node, tmp_path: Path
) -> None:
    node = jax_node
    (tmp_path / "requirements.txt").write_text("tiny_optimiser<2  # the new one is slow\n--pre\n./mine\n")
    async with kernel(kernel_name(cloud, node), tmp_path) as manager:
        assert await printed(manager, "import jax, tiny_optimiser as t; print(jax.VERSION, t.VERSION)") == f"{JAX} 1.0"
    before = remembered(cloud, node)
    assert before.requirements == ("tiny_optimiser<2",)
    (tmp_path / "requirements.txt").write_text("libtpu==0.0.21\n")
    with pytest.raises(EnvironmentFailed, match=r"cannot be installed with JAX 0\.10"):
        async with kernel(kernel_name(cloud, node), tmp_path):
            pass
    (found,) = (await call_agent(key_of(cloud, node), "environments", {}))["environments"]
    assert SavedEnvironment.from_json(found) == before


@pytest.mark.nightly
async def test_a_node_made_again_gets_back_the_environment_and_what_was_installed_in_it(
    cloud: Cloud, index: dict[str, str], tmp_path: Path
) -> None:
    node = await asyncio.to_thread(cloud.create_node, "taken")
    await make_jax(cloud, node)
    options = f"--quiet --disable-pip-version-check --no-index --find-links {index['UV_FIND_LINKS']}"
    async with kernel(kernel_name(cloud, node), tmp_path) as manager:
        await printed(manager, f"%pip install {options} tiny_plots tiny_optimiser==1.0")
        await until_remembered(cloud, node, ("tiny_optimiser==1.0", "tiny_plots==3.1"))
        await asyncio.to_thread(cloud.delete_node, node.name)
        again = await asyncio.to_thread(cloud.create_node, "taken")
        await manager.restart_kernel(now=True)
        says = "import jax, tiny_plots, tiny_optimiser as t; print(jax.VERSION, tiny_plots.VERSION, t.VERSION)"
        assert await printed(manager, says) == f"{JAX} 3.1 1.0"
    assert again.uid != node.uid
    assert remembered(cloud, again).added == ("tiny_optimiser==1.0", "tiny_plots==3.1")


async def test_what_cannot_be_restored_is_told_and_the_kernel_starts(
    cloud: Cloud, jax_node: Node, tmp_path: Path
) -> None:
    node = jax_node
    name, folder = kernel_name(cloud, node), memory_of(cloud, node)
    told = (await call_agent(key_of(cloud, node), "environments", {}))["environments"][0]
    await call_agent(key_of(cloud, node), "remove_environment", {"framework": "jax"})
    folder.save({**told, "added": ["never_published==7", "tiny_plots==3.1"]})
    async with kernel(name, tmp_path) as manager:
        assert await printed(manager, "import tiny_plots; print(tiny_plots.VERSION)") == "3.1"
    await call_agent(key_of(cloud, node), "remove_environment", {"framework": "jax"})
    folder.save({**told, "version": "0.9.2", "pins": []})
    async with kernel(name, tmp_path) as manager:
        assert await printed(manager, "import sys; print('env/jax' in sys.prefix)") == "False"


def test_a_memory_that_cannot_be_read_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path))
    told = {"framework": "jax", "version": "0.10.2", "requirements": [], "pins": [], "added": []}
    memory = SavedEnvironments(NodeName(project="demo-project", zone="us-central1-a", node_id="a"), "")
    memory.save({**told, "is_ready": False})
    assert memory.all() == ()
    memory.save({**told, "is_ready": True, "version": 7})
    assert memory.all() == ()
    memory.save({**told, "is_ready": True})
    assert [each.title for each in memory.all()] == ["JAX 0.10"]
    (path,) = tmp_path.rglob("jax.json")
    path.write_text("{}")
    assert memory.all() == ()
    memory.remove("jax")
    memory.remove("jax")
