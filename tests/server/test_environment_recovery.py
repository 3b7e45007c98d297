"""A notebook in the environment of a node that is taken away goes on in the same environment on the node made again."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from emulator import own_emulator
from tiny_index import TinyIndex
from tiny_wheels import JAX, write_index
from warm_python import run_warm

if TYPE_CHECKING:
    from conftest import Cloud, Events, OpenPages, Page, Server, StartServer

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

ZONE = "us-central1-a"
NODE = {"zone": ZONE, "accelerator_type": "v5litepod-8", "runtime_version": "v2-alpha-tpuv5-lite", "spot": True}
INSTALL = "%pip install --quiet --disable-pip-version-check --no-index --find-links {} tiny_optimiser==1.0"
PROBE = "import sys; print('x' in globals(), 'env/jax' in sys.prefix)"
VERSIONS = "import jax, tiny_plots as p, tiny_optimiser as o; print(jax.VERSION, p.VERSION, o.VERSION)"


@pytest.fixture(scope="module", autouse=True)
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyIndex]:
    """The only index of this module's servers and workers."""
    folder = tmp_path_factory.mktemp("index") / "wheels"
    write_index(folder)
    index = TinyIndex(folder)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in index.variables.items():
            patch.setenv(name, value)
        yield index
    index.close()


@pytest.fixture(scope="module")
def cloud(index: TinyIndex) -> Iterator[Cloud]:
    """It hands its variables for uv on to its workers."""
    with own_emulator(environment={**os.environ, **index.variables}) as emulator:
        yield emulator


@dataclass(frozen=True)
class Notebook:
    """One that runs in JAX's environment on a node of its own, which is recreated whenever it is taken away."""

    server: Server
    cloud: Cloud
    node_id: str
    kernel_id: str
    memory: Path

    @classmethod
    async def open(
        cls, server: Server, cloud: Cloud, events: Events, node_id: str, environment: str = "-jax"
    ) -> Notebook:
        server.tpu("POST", "nodes", {"node_id": node_id, **NODE})
        await events.until(lambda event: event.get("phase") == "ready")
        assert server.tpu("PUT", f"nodes/{ZONE}/{node_id}/recovery", {"is_on": True}).json["is_on"]
        (server.folder / "requirements.txt").write_text("tiny_plots\n")
        before = memories(server)
        await asyncio.to_thread(make_environment, server, cloud, node_id)
        (memory,) = memories(server) - before
        kernel = {"name": f"tpu-{node_id}-{ZONE}{environment}"}
        asked = {"path": f"{node_id}.ipynb", "name": node_id, "type": "notebook", "kernel": kernel}
        made = server.request("POST", "api/sessions", asked)
        assert made.status == 201, made.text
        return cls(server, cloud, node_id, made.json["kernel"]["id"], memory)

    def on(self, server: Server) -> Notebook:
        """The same where another server runs in the folder."""
        return replace(self, server=server)

    async def install(self, page: Page, index: TinyIndex) -> None:
        """Set a variable and add a package, as a user does in a cell; until this machine knows of it."""
        await page.until_idle(page.execute("x = 1"))
        assert "restart the kernel" in await printed(page, INSTALL.format(index.folder))
        async with asyncio.timeout(120):
            while not self._is_remembered():  # noqa: ASYNC110 - no file tells of its change
                await asyncio.sleep(0.05)

    def preempt(self) -> None:
        self.cloud.control.preempt(f"projects/{self.cloud.project}/locations/{ZONE}/nodes/{self.node_id}")

    async def until_it_is_back(self, events: Events) -> None:
        """Until the server has a link to the node made again, and the node has the kernel."""
        await events.until_true(self._is_back)
        name = f"projects/{self.cloud.project}/locations/{ZONE}/nodes/{self.node_id}"
        home = Path(self.cloud.control.workers(name)[0]["home"])
        async with asyncio.timeout(120):
            while not (home / ".jupyter-tpu" / "kernels" / self.kernel_id).exists():  # noqa: ASYNC110 - the same
                await asyncio.sleep(0.05)

    def _is_back(self) -> bool:
        replay = self.server.tpu("GET", f"kernels/{self.kernel_id}/replay").json
        return bool(replay.get("is_back") and replay["lost_at"])

    def _is_remembered(self) -> bool:
        return bool(json.loads(self.memory.read_text())["added"] == ["tiny_optimiser==1.0"])


def memories(server: Server) -> set[Path]:
    """What the server's machine knows of environments, a file each."""
    return set((server.folder / "tpu").glob("environments/*/jax.json"))


def make_environment(server: Server, cloud: Cloud, node_id: str) -> None:
    """By `jupyter tpu env make` beside the server."""
    folders = {"JUPYTER_DATA_DIR": "data", "JUPYTER_TPU_DATA_DIR": "tpu", "HOME": "."}
    variables = {name: str(server.folder / folder) for name, folder in folders.items()}
    command = [sys.executable, "-m", "jupyter_tpu.cli", "env", "make", node_id, "jax"]
    run_warm(command, env={**os.environ, **variables, **cloud.variables}, timeout=120).check_returncode()


async def printed(page: Page, code: str) -> str:
    asked = page.execute(code)
    await page.until_idle(asked)
    return page.text(asked)


async def assert_all_is_there_again(page: Page) -> None:
    """The environment with what was installed in it; variables are lost with a node."""
    assert await printed(page, PROBE) == "False True\n"
    assert await printed(page, VERSIONS) == f"{JAX} 3.1 1.0\n"


async def test_a_notebook_goes_on_in_its_environment_although_the_node_is_taken_again_while_that_is_made(
    server: Server, cloud: Cloud, open_page: OpenPages, index: TinyIndex
) -> None:
    async with server.events() as events:
        notebook = await Notebook.open(server, cloud, events, "twice")
        await notebook.install(await open_page(server, notebook.kernel_id), index)
        index.hold_up("jax-")
        notebook.preempt()
        await index.until_somebody_waits()

        notebook.preempt()
        index.let_go()
        await events.until(lambda event: "recreated (attempt 2" in event.get("message", ""))
        await notebook.until_it_is_back(events)

        await assert_all_is_there_again(await open_page(server, notebook.kernel_id))


async def test_a_server_that_is_killed_while_an_environment_is_made_again_changes_nothing(
    start_server: StartServer, cloud: Cloud, open_page: OpenPages, index: TinyIndex
) -> None:
    first = start_server(**cloud.variables)
    async with first.events() as events:
        notebook = await Notebook.open(first, cloud, events, "killed")
        await notebook.install(await open_page(first, notebook.kernel_id), index)
        index.hold_up("jax-")
        notebook.preempt()
        await index.until_somebody_waits()
        first.kill()
    index.let_go()
    following = start_server(after=first, **cloud.variables)
    async with following.events() as events:
        await notebook.on(following).until_it_is_back(events)
        await assert_all_is_there_again(await open_page(following, notebook.kernel_id))


async def test_where_the_index_cannot_be_reached_the_notebook_starts_with_what_there_is_and_says_so(
    server: Server, cloud: Cloud, open_page: OpenPages, index: TinyIndex
) -> None:
    async with server.events() as events:
        notebook = await Notebook.open(server, cloud, events, "apart")
        page = await open_page(server, notebook.kernel_id)
        await notebook.install(page, index)
        index.go_away()
        notebook.preempt()
        said = await page.until(lambda message: "The kernel starts with" in message["content"].get("text", ""))
        assert "Connection refused" in said["content"]["text"]
        assert "with the worker's own Python." in said["content"]["text"]

        await notebook.until_it_is_back(events)
        page = await open_page(server, notebook.kernel_id)
        assert await printed(page, PROBE) == "False False\n"

        index.come_back()
        restarted = server.request("POST", f"api/kernels/{notebook.kernel_id}/restart")
        assert restarted.status == 200, restarted.text
        await assert_all_is_there_again(await open_page(server, notebook.kernel_id))


async def test_what_was_added_to_the_nodes_own_python_is_named_when_it_is_gone(
    server: Server, cloud: Cloud, open_page: OpenPages, index: TinyIndex, tmp_path: Path
) -> None:
    async with server.events() as events:
        notebook = await Notebook.open(server, cloud, events, "plain", "")
        page = await open_page(server, notebook.kernel_id)
        install = f"{INSTALL.format(index.folder)} --target {tmp_path}"  # this Python is that of the tests
        assert "restart the kernel" in await printed(page, install)
        notebook.preempt()
        said = await page.until(lambda message: "Lost with the node" in message["content"].get("text", ""))
        assert "pip install --quiet" in said["content"]["text"]
