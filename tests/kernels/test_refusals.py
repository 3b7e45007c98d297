"""What the user reads when a kernel cannot be started, or is lost, and what is (not) left behind."""

from __future__ import annotations

import asyncio
import re
import signal
from typing import Any

import pytest
from jupyter_client.ioloop import AsyncIOLoopKernelManager
from jupyter_client.manager import AsyncKernelManager

from jupyter_tpu.errors import HostKeyChanged, KernelFailed, NodeNotFound, WorkerUnreachable, WrongState
from jupyter_tpu.kernels.kernelspecs import write_kernelspec
from jupyter_tpu.models import Node


@pytest.fixture
def manager(kernel_name: str) -> AsyncKernelManager:
    return AsyncKernelManager(kernel_name=kernel_name)


# past ipykernel's capture, which would still be reading when the process ends
CURSE = "import os, sys; os.write(sys.stderr._original_stdstream_copy, b'no luck'); os._exit(7)"


def add_startup_file(cloud: Any, node: Node, code: str) -> None:
    """Let each kernel of the node run this before it does anything else."""
    startup = cloud.home_of(node) / ".ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "startup.py").write_text(code)


async def test_a_node_that_is_gone_is_named(cloud: Any) -> None:
    ghost = await asyncio.to_thread(cloud.create_node, "ghost")
    name = write_kernelspec(ghost, cloud.settings)
    await asyncio.to_thread(cloud.delete_node, ghost.name)
    with pytest.raises(NodeNotFound, match="ghost"):
        await AsyncKernelManager(kernel_name=name).start_kernel()


async def test_a_stopped_node_is_not_started_by_opening_a_notebook(cloud: Any) -> None:
    idle = await asyncio.to_thread(cloud.create_node, "idle")
    name = write_kernelspec(idle, cloud.settings)
    await asyncio.to_thread(cloud.stop_node, idle.name)
    with pytest.raises(WrongState, match="idle is STOPPED, not READY") as caught:
        await AsyncKernelManager(kernel_name=name).start_kernel()
    assert "jupyter tpu start idle" in caught.value.hint
    assert str(idle.name) not in cloud.control.billing()


async def test_a_worker_whose_ssh_server_is_down_is_unreachable(
    cloud: Any, node: Node, manager: AsyncKernelManager
) -> None:
    cloud.control.close_ssh(str(node.name))
    try:
        with pytest.raises(WorkerUnreachable, match=r"my-node\.us-central1-a\.tpu is not responding over SSH"):
            await manager.start_kernel()
    finally:
        cloud.control.open_ssh(str(node.name))


@pytest.mark.nightly
async def test_a_start_does_not_wait_for_ever_for_a_link_that_is_cut(
    cloud: Any, node: Node, manager: AsyncKernelManager, kernel_name: str
) -> None:
    await manager.start_kernel()
    cloud.control.close_ssh(str(node.name))
    try:
        with pytest.raises(WorkerUnreachable, match="is not responding over SSH"):
            await AsyncKernelManager(kernel_name=kernel_name).start_kernel()
    finally:
        cloud.control.open_ssh(str(node.name))
        await manager.shutdown_kernel(now=True)


async def test_another_host_key_is_refused(cloud: Any, caplog: pytest.LogCaptureFixture) -> None:
    forged = await asyncio.to_thread(cloud.create_node, "forged")
    name = write_kernelspec(forged, cloud.settings)
    cloud.control.change_host_key(str(forged.name))
    with pytest.raises(HostKeyChanged, match="does not match the pinned key"):
        await AsyncKernelManager(kernel_name=name).start_kernel()
    assert "does not match the pinned key" in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_node_made_elsewhere_is_given_our_key(cloud: Any) -> None:
    foreign = await asyncio.to_thread(cloud.create_node, "foreign", with_our_key=False)
    manager = AsyncKernelManager(kernel_name=write_kernelspec(foreign, cloud.settings))
    await manager.start_kernel()
    assert await manager.is_alive()
    await manager.shutdown_kernel()


async def test_a_kernel_that_dies_at_its_start_says_why(cloud: Any) -> None:
    cursed = await asyncio.to_thread(cloud.create_node, "cursed")
    add_startup_file(cloud, cursed, CURSE)
    manager = AsyncKernelManager(kernel_name=write_kernelspec(cursed, cloud.settings))
    with pytest.raises(KernelFailed, match=r"died during startup \(exit code 7\)") as caught:
        await manager.start_kernel()
    assert "no luck" in caught.value.raw
    await until_nothing_is_left(cloud, cursed)


async def test_a_start_that_is_given_up_leaves_nothing_behind(cloud: Any) -> None:
    slow = await asyncio.to_thread(cloud.create_node, "slow")
    add_startup_file(cloud, slow, "import time; time.sleep(600)")
    given_up = AsyncKernelManager(kernel_name=write_kernelspec(slow, cloud.settings))
    starting = asyncio.create_task(given_up.start_kernel())
    async with asyncio.timeout(60):
        while not cloud.kernels_on(slow):  # noqa: ASYNC110 - stands for another machine's folder
            await asyncio.sleep(0.01)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await until_nothing_is_left(cloud, slow)


async def test_a_cut_link_is_no_dead_kernel_and_loses_no_output(
    cloud: Any, node: Node, manager: AsyncKernelManager
) -> None:
    await manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=60)
        request = client.execute("import time\nfor n in range(40): print(n, flush=True); time.sleep(0.05)")
        await client.get_iopub_msg(timeout=60)
        cloud.control.close_ssh(str(node.name))
        assert await manager.is_alive()
        cloud.control.open_ssh(str(node.name))
        text = ""
        while True:
            message = await client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") == request:
                text += message["content"].get("text", "")
                if message["content"].get("execution_state") == "idle":
                    break
        assert text.split() == [str(n) for n in range(40)]
        assert await manager.is_alive()
    finally:
        client.stop_channels()
        await manager.shutdown_kernel()


async def test_a_kernel_on_a_node_that_is_deleted_is_dead(cloud: Any) -> None:
    doomed = await asyncio.to_thread(cloud.create_node, "doomed")
    manager = AsyncKernelManager(kernel_name=write_kernelspec(doomed, cloud.settings))
    await manager.start_kernel()
    await asyncio.to_thread(cloud.delete_node, doomed.name)
    async with asyncio.timeout(60):
        assert await manager.provisioner.wait() == -signal.SIGKILL
    await manager.shutdown_kernel()


async def test_a_kernel_comes_back_after_its_node_was_stopped_and_started(cloud: Any) -> None:
    paused = await asyncio.to_thread(cloud.create_node, "paused")
    manager = AsyncKernelManager(kernel_name=write_kernelspec(paused, cloud.settings))
    await manager.start_kernel()
    client = manager.client()
    client.start_channels(hb=False)
    await asyncio.to_thread(cloud.stop_node, paused.name)
    async with asyncio.timeout(60):
        await manager.provisioner.wait()
    await asyncio.to_thread(cloud.start_node, paused.name)
    await manager.restart_kernel(now=True)
    await client.wait_for_ready(timeout=60)
    reply = await client.execute_interactive("1 + 1", timeout=60)
    assert reply["content"]["status"] == "ok"
    client.stop_channels()
    await manager.shutdown_kernel()


async def test_a_kernel_shut_down_while_the_link_is_cut_is_let_go_and_ends_once_the_link_is_back(
    cloud: Any, node: Node, manager: AsyncKernelManager, caplog: pytest.LogCaptureFixture
) -> None:
    await manager.start_kernel()
    cloud.control.close_ssh(str(node.name))
    try:
        async with asyncio.timeout(60):
            await manager.shutdown_kernel(now=True)
        assert not await manager.is_alive()
        assert "may keep running and using the TPU until the node is stopped" in caplog.text
        assert cloud.kernels_on(node)
    finally:
        cloud.control.open_ssh(str(node.name))
    await until_nothing_is_left(cloud, node)


async def until_nothing_is_left(cloud: Any, node: Node) -> None:
    async with asyncio.timeout(60):
        while cloud.kernels_on(node):  # noqa: ASYNC110 - stands for another machine's folder
            await asyncio.sleep(0.01)


async def test_a_restart_asked_for_while_the_link_is_cut_does_not_wait_and_happens_once_it_is_back(
    cloud: Any, node: Node, manager: AsyncKernelManager
) -> None:
    await manager.start_kernel()
    client = manager.client()
    client.start_channels(hb=False)
    try:
        await client.wait_for_ready(timeout=60)
        await client.execute_interactive("x = 1", timeout=60)
        cloud.control.close_ssh(str(node.name))
        async with asyncio.timeout(60):
            await manager.restart_kernel(now=True)
        assert await manager.is_alive()
        cloud.control.open_ssh(str(node.name))
        await client.wait_for_ready(timeout=60)
        reply = await client.execute_interactive("x", timeout=60)
        assert reply["content"]["ename"] == "NameError"
    finally:
        cloud.control.open_ssh(str(node.name))
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


@pytest.mark.nightly
async def test_a_shutdown_that_comes_late_spares_a_newer_kernel_of_the_same_id(
    cloud: Any, node: Node, kernel_name: str
) -> None:
    old = AsyncKernelManager(kernel_name=kernel_name)
    await old.start_kernel(kernel_id="reused")
    cloud.control.close_ssh(str(node.name))
    try:
        await old.shutdown_kernel(now=True)
        starting = AsyncKernelManager(kernel_name=kernel_name)
    finally:
        cloud.control.open_ssh(str(node.name))
    await starting.start_kernel(kernel_id="reused")
    client = starting.client()
    client.start_channels(hb=False)
    await client.wait_for_ready(timeout=60)
    assert (await client.execute_interactive("1 + 1", timeout=60))["content"]["status"] == "ok"
    client.stop_channels()
    await starting.shutdown_kernel(now=True)


async def until_logged(caplog: pytest.LogCaptureFixture, words: str) -> None:
    async with asyncio.timeout(60):
        while words not in caplog.text:  # noqa: ASYNC110 - the log calls nobody
            await asyncio.sleep(0.01)


@pytest.mark.nightly
async def test_a_kernel_restarted_while_the_link_is_cut_lives_once_the_link_is_back(
    cloud: Any, node: Node, manager: AsyncKernelManager, caplog: pytest.LogCaptureFixture
) -> None:
    await manager.start_kernel()
    client = manager.client()
    client.start_channels(hb=False)
    try:
        cloud.control.close_ssh(str(node.name))
        restarting = asyncio.create_task(manager.restart_kernel(now=True))
        await until_logged(caplog, "may still be running")
        cloud.control.open_ssh(str(node.name))
        await restarting
        assert await manager.is_alive()
        await client.wait_for_ready(timeout=60)
        reply = await client.execute_interactive("1 + 1", timeout=60)
        assert reply["content"]["status"] == "ok"
        assert await manager.is_alive()
    finally:
        cloud.control.open_ssh(str(node.name))
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


@pytest.mark.nightly
async def test_a_failed_restart_is_told_to_who_asked_and_a_later_one_repeats_nothing(cloud: Any) -> None:
    resting = await asyncio.to_thread(cloud.create_node, "resting")
    manager = AsyncKernelManager(kernel_name=write_kernelspec(resting, cloud.settings))
    await manager.start_kernel()
    client = manager.client()
    client.start_channels(hb=False)
    await client.wait_for_ready(timeout=60)
    await client.execute_interactive("print('old')", timeout=60)
    await asyncio.to_thread(cloud.stop_node, resting.name)
    async with asyncio.timeout(60):
        await manager.provisioner.wait()
    with pytest.raises(WrongState, match="resting is STOPPED"):
        await manager.restart_kernel(now=True)
    await asyncio.to_thread(cloud.start_node, resting.name)
    await manager.restart_kernel(now=True)
    request = client.execute("print('new')")
    text = ""
    while True:
        message = await client.get_iopub_msg(timeout=60)
        text += message["content"].get("text", "")
        is_ours = message["parent_header"].get("msg_id") == request
        if is_ours and message["content"].get("execution_state") == "idle":
            break
    assert "new" in text
    assert "old" not in text
    client.stop_channels()
    await manager.shutdown_kernel()


async def test_a_message_that_the_link_cannot_carry_is_refused_in_words(manager: AsyncKernelManager) -> None:
    await manager.start_kernel()
    client = manager.client()
    client.start_channels(hb=False)
    await client.wait_for_ready(timeout=60)
    message = client.session.msg("comm_msg", {})
    client.session.send(client.shell_channel.socket, message, buffers=[b""] * 0x10000)
    while "cannot be sent to a kernel" not in (await client.get_iopub_msg(timeout=60))["content"].get("text", ""):
        pass
    reply = await client.execute_interactive("1 + 1", timeout=60)
    assert reply["content"]["status"] == "ok"
    client.stop_channels()
    await manager.shutdown_kernel(now=True)


class Watched:
    """A manager whose restarter watches the kernel, as in Jupyter Server, with what it tells."""

    def __init__(self, kernel_name: str) -> None:
        self.manager = AsyncIOLoopKernelManager(kernel_name=kernel_name)
        self.told: asyncio.Queue[str] = asyncio.Queue()

    async def start(self) -> None:
        await self.manager.start_kernel()
        restarter = self.manager._restarter
        restarter.stop()
        restarter.time_to_dead = 0.2
        restarter.start()
        for event in ("restart", "dead"):
            self.manager.add_restart_callback(lambda event=event: self.told.put_nowait(event), event)


async def test_a_restarter_brings_a_dead_kernel_back(kernel_name: str) -> None:
    watched = Watched(kernel_name)
    await watched.start()
    client = watched.manager.client()
    client.start_channels(hb=False)
    client.execute("import os; os._exit(1)")
    assert await asyncio.wait_for(watched.told.get(), 60) == "restart"
    await client.wait_for_ready(timeout=60)
    client.stop_channels()
    await watched.manager.shutdown_kernel()


@pytest.mark.nightly
async def test_a_restarter_calls_the_kernel_of_a_deleted_node_dead_and_tries_nothing(
    cloud: Any, caplog: pytest.LogCaptureFixture
) -> None:
    lost = await asyncio.to_thread(cloud.create_node, "lost")
    watched = Watched(write_kernelspec(lost, cloud.settings))
    await watched.start()
    client = watched.manager.client()
    client.start_channels(hb=False)
    await client.wait_for_ready(timeout=60)
    await asyncio.to_thread(cloud.delete_node, lost.name)
    assert await asyncio.wait_for(watched.told.get(), 60) == "dead"
    assert not await watched.manager.is_alive()
    assert watched.told.empty()
    refused = (await client.execute("1 + 1", reply=True, timeout=60))["content"]
    assert refused["status"] == "error"
    assert "A cell was not run" in refused["evalue"]
    client.stop_channels()
    assert "Traceback" not in caplog.text
    await watched.manager.shutdown_kernel()


@pytest.mark.nightly
async def test_a_program_reads_once_why_the_node_under_its_cell_has_ended(cloud: Any) -> None:
    lost = await asyncio.to_thread(cloud.create_node, "lost-under-a-cell")
    manager = AsyncKernelManager(kernel_name=write_kernelspec(lost, cloud.settings))
    await manager.start_kernel()
    client = manager.client()
    client.start_channels(hb=False)
    await client.wait_for_ready(timeout=60)
    # a cell that a restart has ended is nobody's any more
    client.execute("print(0)\nimport time; time.sleep(600)")
    while (await client.get_iopub_msg(timeout=60))["msg_type"] != "stream":
        pass
    await manager.restart_kernel(now=True)
    await client.wait_for_ready(timeout=60)
    running, waiting = client.execute("print(1)\nimport time; time.sleep(600)"), client.execute("2")
    while (await client.get_iopub_msg(timeout=60))["msg_type"] != "stream":
        pass
    await asyncio.to_thread(cloud.delete_node, lost.name)

    replies = [await client.get_shell_msg(timeout=60) for _ in range(2)]
    status = {reply["parent_header"]["msg_id"]: reply["content"]["status"] for reply in replies}
    assert status == {running: "error", waiting: "aborted"}
    shown = []
    while len([each for each in shown if each["msg_type"] == "status"]) < 2:
        shown.append(await client.get_iopub_msg(timeout=60))
    (error,) = [each["content"] for each in shown if each["msg_type"] == "error"]
    assert error["ename"] == "NodeEnded"
    sentence = r"lost-under-a-cell was deleted at \d\d:\d\d, but not by this Jupyter server\."
    assert re.fullmatch(sentence, error["evalue"])
    assert "Variables are lost; outputs are kept." in error["traceback"]
    assert [each["msg_type"] for each in shown if each["msg_type"] == "stream"] == []
    client.stop_channels()
    await manager.shutdown_kernel()
