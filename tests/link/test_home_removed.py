"""Somebody removes the agent's folder on the worker while kernels run there."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from agent_processes import agent_stopped
from tiers import mostly_nightly

from jupyter_tpu.agent.paths import Home


def home_of(worker: Any) -> Home:
    """The agent's folder; its sockets are elsewhere where a test's own path is long."""
    return Home(Path(worker.home) / ".jupyter-tpu")


def kernel_of(worker: Any) -> Path:
    return home_of(worker).kernels / "kernel-1"


async def until(condition: Callable[[], bool]) -> None:
    """Look again and again; the file system tells nobody of changes."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def remove_folders(worker: Any) -> None:
    """Remove them before the agent can restore the first."""
    with agent_stopped(worker.home):
        shutil.rmtree(home_of(worker).run)
        shutil.rmtree(home_of(worker).root, ignore_errors=True)


async def remove_home(worker: Any) -> None:
    """As ``rm -rf`` does it; returns when the agent has done what it can."""
    remove_folders(worker)
    await until((kernel_of(worker) / "kernel.json").exists)


@pytest.fixture
def prewarmed(worker: Any) -> None:
    """A worker that makes spares, as all do outside tests."""
    worker.env["JUPYTER_TPU_PREWARM"] = "1"


@pytest.mark.parametrize("removed", mostly_nightly(["root", "run"], count=1))
async def test_a_kernel_is_reached_again_after_its_agents_folder_was_removed(
    client: Any, worker: Any, removed: str
) -> None:
    home = home_of(worker)
    await client.start()
    await client.run("x = 41")
    agent = client.link.agent["pid"]
    shutil.rmtree(getattr(home, removed), ignore_errors=True)  # the agent may write meanwhile
    parts = (home.socket, home.lock, kernel_of(worker) / "requests")
    await until(lambda: all(part.exists() for part in parts))
    worker.cut()
    await client.run("print(x + 1)")
    assert client.printed() == "42\n"
    assert client.link.agent["pid"] == agent
    assert {folder.stat().st_mode & 0o077 for folder in (home.root, home.run, home.kernels, kernel_of(worker))} == {0}


@pytest.mark.nightly
@pytest.mark.parametrize("removed", ["kernel.json", "record/*.segment", "requests", "connection.json", "heard"])
async def test_a_file_is_restored_where_its_folder_stayed(client: Any, worker: Any, removed: str) -> None:
    """``rm -rf`` leaves a folder in which the agent wrote something while it was being emptied."""
    await client.start()
    await client.run("print('before')")
    await asyncio.sleep(1.5)  # the agent has looked at the folder since the kernel started
    (path,) = kernel_of(worker).glob(removed)
    path.unlink()
    await until(path.exists)
    await client.run("print('after')")
    assert client.printed() == "before\nafter\n"


@pytest.mark.nightly
async def test_a_folder_that_a_starting_kernel_created_again_is_restored_and_private(client: Any, worker: Any) -> None:
    """ipykernel creates the folder of its connection file, and the folders above it with the umask's mode."""
    home = home_of(worker)
    await client.start()
    await client.run("x = 41")
    agent = psutil.Process(client.link.agent["pid"])
    agent.suspend()  # so that it comes second
    shutil.rmtree(home.run)
    shutil.rmtree(home.root)
    for folder in (home.root, home.kernels):
        folder.mkdir()
        folder.chmod(0o775)
    kernel_of(worker).mkdir(mode=0o700)
    agent.resume()
    await until((kernel_of(worker) / "kernel.json").exists)
    assert {folder.stat().st_mode & 0o077 for folder in (home.root, home.kernels, kernel_of(worker))} == {0}


@pytest.mark.nightly
async def test_an_agent_whose_supervisor_was_killed_stays_the_only_one(client: Any, worker: Any) -> None:
    """It keeps the lock in the supervisor's place."""
    await client.start()
    await client.run("x = 41")
    agent = client.link.agent["pid"]
    worker.kill(worker.supervisor_pid())
    for _ in range(2):
        worker.cut()
        await client.run("print(x + 1)")
        await asyncio.sleep(2)  # as long as it takes to prepare the worker behind a link that is up already
    assert client.printed() == "42\n" * 2
    assert client.link.agent["pid"] == agent
    assert [process.pid for process in worker.processes() if "agent" in process.cmdline()] == [agent]


@pytest.mark.nightly
async def test_what_a_kernel_had_printed_is_kept_when_its_agents_folder_is_removed(client: Any, worker: Any) -> None:
    await client.start()
    await client.run("print('before')")
    await remove_home(worker)
    await client.run("print('after')")
    later = type(client)(client.link)
    later.attach()
    await later.wait(lambda message: "after" in later.printed())
    assert later.printed() == "before\nafter\n"


@pytest.mark.nightly
async def test_a_kernel_that_no_later_agent_can_reach_is_ended_with_words(client: Any, worker: Any) -> None:
    pid = (await client.start())["pid"]
    await client.run("print('it runs')")
    await remove_home(worker)
    worker.kill(client.link.agent["pid"])
    ended = await client.wait(lambda message: message.get("event") == "exited", timeout=60)
    assert "sockets were removed from the worker" in ended["stderr"]
    assert not psutil.pid_exists(pid)


@pytest.mark.nightly
async def test_a_folder_that_cannot_be_restored_is_told_in_the_notebook(client: Any, worker: Any) -> None:
    await client.start()
    await client.run("print('in a cell')")
    root = home_of(worker).root
    with agent_stopped(worker.home):
        root.rename(root.with_name("elsewhere"))
        root.write_text("in the way")
    told = await client.event("words")
    assert "cannot be restored" in told["message"]
    assert ".jupyter-tpu" in told["message"]


async def test_kernels_start_after_the_agents_code_was_removed_with_its_folder(client: Any, worker: Any) -> None:
    await client.start()
    (code,) = (home_of(worker).root / "agent").rglob("kernel_bootstrap.py")
    await remove_home(worker)
    await until(code.exists)
    other = type(client)(client.link, "kernel-2")
    await other.start()
    await other.run("print('it starts')")
    assert other.printed() == "it starts\n"


@pytest.mark.nightly
async def test_kernels_start_by_code_that_no_client_can_bring_again(client: Any, worker: Any, open_link: Any) -> None:
    """As after an upgrade of the client: it brings the new agent's code, and the old agent needs its own."""
    await client.start()
    (code,) = (home_of(worker).root / "agent").rglob("kernel_bootstrap.py")
    await client.link.close()
    await remove_home(worker)
    await until(code.exists)
    other = type(client)(await open_link(), "kernel-2")
    await other.start()
    await other.run("print('it starts')")
    assert other.printed() == "it starts\n"


async def test_a_kernel_is_restarted_and_another_starts_right_after_the_agents_folder_was_removed(
    client: Any, worker: Any
) -> None:
    await client.start()
    await client.run("x = 1")
    remove_folders(worker)
    other = type(client)(client.link, "kernel-2")
    await asyncio.gather(client.link.call("restart_kernel", {"kernel_id": "kernel-1", "key": "secret"}), other.start())
    for each in (client, other):
        await each.run("print('x' in globals())")
        assert each.printed() == "False\n"


@pytest.mark.nightly
async def test_a_spare_whose_sockets_were_removed_becomes_no_kernel(prewarmed: None, client: Any, worker: Any) -> None:
    async with asyncio.timeout(60):
        while client.link.spare is None:  # noqa: ASYNC110 - the link has no way to tell that it was told
            await asyncio.sleep(0.02)
    shutil.rmtree(home_of(worker).run)
    await until(home_of(worker).socket.exists)
    await client.start()
    worker.kill(client.link.agent["pid"])
    await client.run("print('it runs on')")
    assert client.printed() == "it runs on\n"


@pytest.mark.nightly
async def test_a_client_that_comes_before_the_folder_is_restored_gets_no_second_agent(
    client: Any, worker: Any, open_link: Any
) -> None:
    home = home_of(worker)
    await client.start()
    agent = psutil.Process(client.link.agent["pid"])
    agent.suspend()
    shutil.rmtree(home.root)
    shutil.rmtree(home.run)
    opening = asyncio.create_task(open_link())
    await until(home.lock.exists)
    await asyncio.wait({opening}, timeout=3)  # long enough for another agent
    agent.resume()
    link = await opening
    assert link.agent["pid"] == agent.pid


@pytest.mark.nightly
async def test_a_folder_that_is_removed_again_while_it_is_restored_gets_no_second_agent(
    client: Any, worker: Any
) -> None:
    home = home_of(worker)
    await client.start()
    await client.run("x = 41")
    agent = client.link.agent["pid"]
    (code,) = (home.root / "agent").rglob("kernel_bootstrap.py")
    for _ in range(3):  # as a slow `rm -rf` does it, which comes to the new files too
        shutil.rmtree(home.root, ignore_errors=True)
        shutil.rmtree(home.run, ignore_errors=True)
        await until(lambda: home.lock.exists() and home.socket.exists())
    await until(code.exists)
    await client.run("print(x + 1)")
    assert client.printed() == "42\n"
    assert client.link.agent["pid"] == agent
