"""A worker whose python3 has nothing: the environments are made first, and what fails is said in words."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiers import mostly_nightly

from jupyter_tpu.emulator.workers.image import Image, make_bare
from jupyter_tpu.errors import EnvironmentFailed


@pytest.fixture(scope="module")
def bare_image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return make_bare(tmp_path_factory.mktemp("image"), Path(sys.executable))


@pytest.fixture
def bare_worker(worker: Any, bare_image: Image) -> Any:
    """Its PATH has a python3 without ipykernel; uv lies where its installer puts it."""
    local = worker.home / ".local/bin"
    local.mkdir(parents=True)
    (local / "uv").symlink_to(shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv") or "uv")
    worker.env["PATH"] = bare_image.path
    return worker


async def test_a_bare_worker_is_prepared_once_with_its_phases_shown(
    bare_worker: Any, open_link: Any, new_client: Any
) -> None:
    progress: list[dict[str, Any]] = []
    link = await open_link(on_progress=progress.append)
    assert {"agent", "kernel"} == {step["phase"] for step in progress}
    assert "Installing ipykernel" in " ".join(step["message"] for step in progress)
    client = new_client(link)
    await client.start()
    await client.run("import sys; print(sys.prefix)")
    assert ".jupyter-tpu/env/kernel-" in client.printed()
    progress.clear()
    await open_link(on_progress=progress.append)
    assert progress == []


async def test_kernels_see_the_packages_of_the_workers_python(
    bare_worker: Any, bare_image: Image, open_link: Any, new_client: Any
) -> None:
    client = new_client(await open_link())
    await client.start()
    await client.run("import pip; print(pip.__file__)")
    assert client.printed().startswith(str(bare_image.commands.parent))


@pytest.mark.nightly
async def test_a_half_made_environment_is_made_anew(bare_worker: Any, open_link: Any) -> None:
    await open_link()
    environments = bare_worker.home / ".jupyter-tpu/env"
    (kernel_environment,) = environments.glob("kernel-*")
    (kernel_environment / ".ready").unlink()
    shutil.rmtree(kernel_environment / "bin")
    await open_link()
    assert (kernel_environment / ".ready").is_file()


@pytest.mark.nightly
async def test_an_environment_that_broke_is_made_anew_once_the_link_is_back(
    bare_worker: Any, open_link: Any, new_client: Any
) -> None:
    client = new_client(await open_link())
    (kernel_environment,) = bare_worker.home.glob(".jupyter-tpu/env/kernel-*")
    (kernel_environment / ".ready").unlink()
    shutil.rmtree(kernel_environment / "bin")
    bare_worker.cut()
    while not (kernel_environment / ".ready").is_file():  # noqa: ASYNC110 - the worker tells nobody of its files
        await asyncio.sleep(0.1)
    await client.start()
    await client.run("import sys; print(sys.prefix)")
    assert client.printed().strip() == str(kernel_environment)


async def test_without_a_package_index_the_error_says_what_to_do(bare_worker: Any, open_link: Any) -> None:
    bare_worker.env["UV_OFFLINE"] = "1"
    bare_worker.env["UV_CACHE_DIR"] = str(bare_worker.home / "empty-cache")
    with pytest.raises(EnvironmentFailed, match="ipykernel") as caught:
        await open_link()
    assert "package index" in caught.value.hint
    assert caught.value.raw


async def test_without_a_package_index_a_worker_that_has_everything_still_works(worker: Any, open_link: Any) -> None:
    worker.env["UV_OFFLINE"] = "1"
    worker.env["UV_CACHE_DIR"] = str(worker.home / "empty-cache")
    progress: list[dict[str, Any]] = []
    link = await open_link(on_progress=progress.append)
    assert link.state == "live"
    assert "the worker's python3" in " ".join(step["message"] for step in progress)


@pytest.fixture
def virtual_environment(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


async def test_a_virtual_environment_without_ipykernel_is_left_alone(virtual_environment: Path, open_link: Any) -> None:
    with pytest.raises(EnvironmentFailed, match="has no ipykernel") as caught:
        await open_link(python=str(virtual_environment / "bin/python"))
    assert "pip install ipykernel" in caught.value.hint


def break_agent_python(agent_environment: Path) -> None:
    (agent_environment / "bin/python").unlink()
    (agent_environment / "bin/python").symlink_to("/nonexistent/python3")


def remove_pyzmq(agent_environment: Path) -> None:
    for package in agent_environment.glob("lib/python*/site-packages/zmq"):
        shutil.rmtree(package)


def break_code(agent_environment: Path) -> None:
    (code,) = agent_environment.parents[1].glob("agent/*")
    with (code / "jupyter_tpu/agent/session.py").open("a") as source:
        source.write("\n)garbage(\n")


def remove_code(agent_environment: Path) -> None:
    shutil.rmtree(agent_environment.parents[1] / "agent")


@pytest.mark.parametrize("damage", mostly_nightly([break_agent_python, break_code, remove_pyzmq, remove_code], count=1))
async def test_what_was_damaged_on_a_worker_is_made_anew(
    worker: Any, open_link: Any, damage: Callable[[Path], None]
) -> None:
    await (await open_link()).close()
    worker.kill_everything()
    damage(worker.home / ".jupyter-tpu/env/agent")
    assert (await open_link()).state == "live"


@pytest.mark.nightly
async def test_a_damaged_environment_of_kernels_is_made_anew(bare_worker: Any, open_link: Any, new_client: Any) -> None:
    await open_link()
    (python,) = bare_worker.home.glob(".jupyter-tpu/env/kernel-*/bin/python")
    python.unlink()
    client = new_client(await open_link())
    await client.start()
    assert (await client.run("1"))["content"]["status"] == "ok"


async def test_two_clients_at_once_find_one_agent(worker: Any, open_link: Any) -> None:
    first, second = await asyncio.gather(open_link(), open_link())
    assert first.agent["pid"] == second.agent["pid"]
