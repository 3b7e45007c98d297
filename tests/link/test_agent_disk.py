"""What a kernel may take of the worker's disk, and what happens when the disk has no more."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from agent_processes import agent_stopped

from jupyter_tpu.errors import EnvironmentFailed, WorkerDiskFull


def limit_files(pid: int, size: int) -> None:
    """The largest size a file that this process writes may have, which fails like a full disk; -1 lifts it."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


def record_of(worker: Any) -> Path:
    return Path(worker.home) / ".jupyter-tpu/kernels/kernel-1/record"


def came_twice(client: Any) -> bool:
    """Whether a message came twice; the second one is not in `messages`, as Jupyter's Session refuses it."""
    return len(client.raw) != len(client.messages)


async def until(condition: Callable[[], bool]) -> None:
    """Look again and again; the file system tells nobody of changes."""
    async with asyncio.timeout(60):
        while True:
            if condition():
                return
            await asyncio.sleep(0.05)


@pytest.mark.nightly
async def test_what_a_full_disk_did_not_take_is_written_as_soon_as_there_is_room(client: Any, worker: Any) -> None:
    await client.start()
    limit_files(client.link.agent["pid"], 1)
    await client.run("print('held in memory')")
    assert not any(b"held in memory" in path.read_bytes() for path in record_of(worker).iterdir())
    limit_files(client.link.agent["pid"], -1)
    await until(lambda: any(b"held in memory" in path.read_bytes() for path in record_of(worker).iterdir()))


async def test_what_a_full_disk_did_not_take_is_not_lost_with_the_agent(client: Any, worker: Any) -> None:
    await client.start()
    await client.run("print('first')")
    limit_files(client.link.agent["pid"], 1)
    await client.run("print('second')")
    worker.kill(client.link.agent["pid"])
    await client.run("print('third')")
    assert client.printed() == "first\nsecond\nthird\n"
    assert not came_twice(client)
    assert [seq for seq, _, _ in client.raw] == sorted({seq for seq, _, _ in client.raw})
    later = type(client)(client.link)
    later.attach()
    await later.wait(lambda message: "third" in later.printed())
    assert later.printed() == "first\nsecond\nthird\n"


async def test_a_request_waits_until_the_kernel_has_sent_again_what_the_disk_did_not_take(
    client: Any, worker: Any
) -> None:
    """Recorded first, it would take the place of what clients have seen already, and they would see that twice."""
    kernel = psutil.Process((await client.start())["pid"])
    await client.run("print('first')")
    limit_files(client.link.agent["pid"], 1)
    await client.run("print('second')")
    kernel.suspend()
    worker.kill(client.link.agent["pid"])
    third = client.execute("print('third')")
    with contextlib.suppress(TimeoutError):  # the next agent takes no request for as long
        await client.wait(lambda message: "third" in str(message.get("content")), timeout=2)
    kernel.resume()
    await client.reply(third)
    assert client.printed() == "first\nsecond\nthird\n"
    assert not came_twice(client)


@pytest.mark.nightly
async def test_agents_that_die_one_after_another_on_a_full_disk_show_nothing_twice(client: Any, worker: Any) -> None:
    await client.start()
    behind = type(client)(client.link)
    behind.attach()
    await client.run("print('recorded')")
    await behind.wait(lambda _: "recorded" in behind.printed())
    behind.stream.hold()
    limit_files(client.link.agent["pid"], 1)
    limit_files(worker.supervisor_pid(), 1)  # the next agents inherit it
    expected = ["recorded"]
    for word in "abcd":
        await client.run(f"print('one {word}')\nprint('two {word}', flush=True)\nprint('three {word}')")
        expected += [f"{number} {word}" for number in ("one", "two", "three")]
        worker.kill(worker.agent_pid())
    await client.run("print('end')")
    assert client.printed().splitlines() == [*expected, "end"]
    assert not came_twice(client)
    assert not any("no longer stored" in str(message) for message in client.messages)
    behind.stream.resume()
    await behind.wait(lambda _: "end" in behind.printed())
    assert behind.printed().splitlines() == [*expected, "end"]
    assert not came_twice(behind)

    limit_files(worker.agent_pid(), -1)
    await until(lambda: any(b"two d" in path.read_bytes() for path in record_of(worker).iterdir()))
    later = type(client)(client.link)
    later.attach()
    await later.wait(lambda _: "end" in later.printed())
    assert later.printed().splitlines() == [*expected, "end"]


async def test_what_a_process_writes_past_the_notebook_does_not_fill_the_disk(client: Any, worker: Any) -> None:
    answer = await client.start()
    assert answer["alive"]
    log = record_of(worker).parent / "output.log"
    running = client.execute(
        "import subprocess, sys\n"
        "log = f'/proc/{__import__(\"os\").getpid()}/fd/1'\n"
        f"with open({str(log)!r}, 'ab') as file:\n"
        "    for i in range(12): file.write(b'x' * 1024 * 1024); file.flush()\n"
        "    file.write(b'the end')"
    )
    await client.reply(running)
    await until(lambda: log.stat().st_size < 1024 * 1024)
    assert log.read_bytes().endswith(b"the end")


async def test_a_folder_that_cannot_be_used_is_named(client: Any, worker: Any) -> None:
    await client.start()
    folder = Path(worker.home) / ".jupyter-tpu"
    with agent_stopped(worker.home):  # else it may make the folder again in between
        folder.rename(folder.with_name("elsewhere"))
        folder.write_text("in the way")

    with pytest.raises(EnvironmentFailed, match=r"\.jupyter-tpu") as caught:
        await client.link.call("start_kernel", {"kernel_id": "kernel-2", "key": "secret"})

    assert "jupyter tpu ssh" in caught.value.hint


@pytest.fixture
async def kernel_on_full_disk(client: Any) -> AsyncIterator[Any]:
    """A kernel that has an `x`, on a disk that takes nothing more."""
    await client.start()
    await client.run("x = 41")
    limit_files(client.link.agent["pid"], 1)
    yield client
    limit_files(client.link.agent["pid"], -1)


async def test_a_restart_on_a_full_disk_ends_no_kernel(kernel_on_full_disk: Any) -> None:
    client = kernel_on_full_disk
    with pytest.raises(EnvironmentFailed, match="disk of the worker can't be written"):
        await client.link.call("restart_kernel", {"kernel_id": "kernel-1", "key": "secret"})
    await client.run("print(x + 1)")
    assert client.printed() == "42\n"


@pytest.mark.nightly
async def test_a_kernel_on_a_full_disk_is_not_shut_down_for_a_restart(kernel_on_full_disk: Any) -> None:
    client = kernel_on_full_disk
    client.send("control", "shutdown_request", {"restart": True})
    refused = await client.event("restart_refused")
    assert "disk" in refused["error"]["message"]
    await client.run("print(x + 1)")
    assert client.printed() == "42\n"


async def test_a_kernel_on_a_full_disk_can_be_shut_down(kernel_on_full_disk: Any) -> None:
    client = kernel_on_full_disk
    client.send("control", "shutdown_request", {"restart": False})
    assert (await client.event("exited"))["exit_code"] == 0


async def test_a_start_on_a_full_disk_says_why_and_leaves_nothing(kernel_on_full_disk: Any) -> None:
    link = kernel_on_full_disk.link
    with pytest.raises(WorkerDiskFull, match="MiB are free in"):
        await link.call("start_kernel", {"kernel_id": "kernel-2", "key": "secret"})
    assert [kernel["kernel_id"] for kernel in (await link.call("list_kernels"))["kernels"]] == ["kernel-1"]


@pytest.mark.nightly
async def test_a_cell_for_the_process_after_a_refused_restart_is_aborted(kernel_on_full_disk: Any, worker: Any) -> None:
    client = kernel_on_full_disk
    agent = psutil.Process(client.link.agent["pid"])
    agent.suspend()  # it reads both at once
    restarting = asyncio.create_task(client.link.call("restart_kernel", {"kernel_id": "kernel-1", "key": "secret"}))
    await asyncio.sleep(0)
    cell = client.execute("print('in the process that was to end')")
    written = worker.connections[-1].streams[-1].written
    await until(lambda: written.find(b"that was to end") > written.find(b"restart_kernel") > 0)
    agent.resume()
    with pytest.raises(EnvironmentFailed):
        await restarting
    assert (await client.reply(cell))["content"]["status"] == "aborted"
    await client.run("print(x + 1)")
    assert client.printed() == "42\n"
