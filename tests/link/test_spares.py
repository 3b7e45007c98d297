"""A kernel that was started in reserve is a kernel as any other once somebody wants it."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from tiers import mostly_nightly

from jupyter_tpu.errors import WorkerDiskFull
from jupyter_tpu.notebook.node.holders import find_holder

DESCRIBE = """
import os, sys
print(os.environ.get("COLOUR"), os.getcwd(), os.environ["JUPYTER_TPU_KERNEL_ID"], sys.argv[0], os.read(0, 10))
"""
PRINT_IN_A_CHILD = """
import multiprocessing, os
child = multiprocessing.get_context("fork").Process(target=lambda: print("from a child", flush=True))
child.start()
child.join()
"""


@pytest.fixture(autouse=True)
def _prewarmed(worker: Any) -> None:
    """Workers of the other modules make no spares."""
    worker.env["JUPYTER_TPU_PREWARM"] = "1"


async def spare_of(client: Any) -> psutil.Process:
    """The process of the spare, once clients are told of it."""
    async with asyncio.timeout(60):
        while client.link.spare is None:  # noqa: ASYNC110 - the link has no way to tell that it was told
            await asyncio.sleep(0.02)
    agent = psutil.Process(client.link.agent["pid"])
    (spare,) = [child for child in agent.children() if "--spare" in child.cmdline() and not is_used(child)]
    return spare


def is_used(spare: psutil.Process) -> bool:
    """Whether it is a kernel already: it has no connection to the agent on its standard input any more."""
    return str(Path(f"/proc/{spare.pid}/fd/0").readlink()) == os.devnull


async def test_a_start_takes_the_spare_and_another_one_is_made(client: Any) -> None:
    spare = await spare_of(client)
    started = await client.start()
    assert started["pid"] == spare.pid
    assert (await client.run("1 + 1"))["content"]["execution_count"] == 1
    assert (await spare_of(client)).pid != spare.pid


async def test_clients_are_told_what_the_spare_would_answer(client: Any) -> None:
    await spare_of(client)
    told = client.link.spare
    assert told["kernel_info"]["language_info"]["name"] == "python"
    assert told["kernel_info"]["status"] == "ok"
    assert Path(told["python"]).is_absolute()


async def test_a_spare_gets_environment_folder_and_name_of_its_kernel(client: Any, tmp_path: Path) -> None:
    await spare_of(client)
    folder = str(tmp_path)
    await client.start(env={"COLOUR": "blue"}, cwd=folder)
    await client.run(DESCRIBE)
    assert client.printed() == f"blue {folder} kernel-1 ipykernel_launcher.py b''\n"


async def test_a_spare_says_nothing_of_its_life_before(client: Any) -> None:
    await spare_of(client)
    await client.start()
    await client.run("1")
    assert client.messages[0]["event"] == "started"
    states = [
        message["content"]["execution_state"] for message in client.messages if message.get("msg_type") == "status"
    ]
    assert states == ["starting", "busy", "idle"]


async def test_children_of_a_spare_print_into_the_notebook(client: Any) -> None:
    await spare_of(client)
    await client.start()
    await client.run(PRINT_IN_A_CHILD)
    await client.wait(lambda message: "from a child" in client.printed())


async def test_a_restart_takes_a_spare_under_the_same_record(client: Any) -> None:
    await client.start()
    await client.run("x = 1")
    spare = await spare_of(client)
    restarted = await client.link.call("restart_kernel", {"kernel_id": "kernel-1", "key": "secret"})
    assert (restarted["pid"], restarted["generation"]) == (spare.pid, 2)
    assert (await client.run("x"))["content"]["ename"] == "NameError"


@pytest.mark.parametrize(
    "params", mostly_nightly([{"env": {"PYTHONPATH": "/tmp"}}, {"extra_arguments": ["--quiet"]}], count=1), ids=str
)
async def test_what_a_spare_could_not_be_is_started_afresh(client: Any, params: dict[str, Any]) -> None:
    spare = await spare_of(client)
    started = await client.start(**params)
    assert started["pid"] != spare.pid
    assert (await client.run("1"))["content"]["status"] == "ok"


async def test_a_spare_that_has_not_seen_a_startup_file_is_not_used(client: Any) -> None:
    spare = await spare_of(client)
    startup = Path(spare.environ()["HOME"]) / ".ipython" / "profile_default" / "startup"
    (startup / "00-colour.py").write_text("colour = 'green'")
    started = await client.start()
    assert started["pid"] != spare.pid
    await client.run("print(colour)")
    assert client.printed() == "green\n"


async def test_a_spare_that_was_killed_costs_nothing(client: Any) -> None:
    spare = await spare_of(client)
    spare.kill()
    started = await client.start()
    assert started["pid"] != spare.pid
    assert (await client.run("1"))["content"]["status"] == "ok"


async def test_a_spare_ends_with_its_agent_and_a_kernel_made_of_one_does_not(client: Any) -> None:
    first = await spare_of(client)
    await client.start()
    await client.run("x = 1")
    second = await spare_of(client)
    os.kill(client.link.agent["pid"], signal.SIGKILL)
    await asyncio.to_thread(psutil.wait_procs, [second], 60)
    assert not second.is_running()
    await client.run("print(x)")
    assert client.printed() == "1\n"
    assert first.is_running()


async def test_the_notebook_of_a_kernel_made_of_a_spare_is_known_to_others(client: Any) -> None:
    spare = await spare_of(client)
    await client.start(env={"JPY_SESSION_NAME": "/home/ada/digits.ipynb"})
    kernels = Path(spare.environ()["HOME"]) / ".jupyter-tpu" / "kernels"
    assert find_holder(spare.pid, kernels=kernels).notebook == "/home/ada/digits.ipynb"


async def test_a_start_does_not_fail_because_the_spares_files_were_removed(client: Any, worker: Any) -> None:
    await spare_of(client)
    for log in (worker.home / ".jupyter-tpu").glob("spare-*.log"):
        log.unlink()
    await client.start()
    await client.run("print('it runs')")
    assert client.printed() == "it runs\n"


async def test_a_spare_is_withdrawn_where_a_full_disk_prevents_a_start(client: Any) -> None:
    await spare_of(client)
    agent = client.link.agent["pid"]
    _, hard = resource.prlimit(agent, resource.RLIMIT_FSIZE)
    resource.prlimit(agent, resource.RLIMIT_FSIZE, (1, hard))
    try:
        with pytest.raises(WorkerDiskFull):
            await client.start()
        # a client that still knew of a spare would announce the next kernel before its start has failed
        async with asyncio.timeout(60):
            while client.link.spare is not None:  # noqa: ASYNC110 - the link has no way to tell that it was told
                await asyncio.sleep(0.02)
    finally:
        resource.prlimit(agent, resource.RLIMIT_FSIZE, (hard, hard))
    await client.start()
    await client.run("print('it runs')")
    assert client.printed() == "it runs\n"
