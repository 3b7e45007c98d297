"""A kernel on a spare that waits on the worker: used at once, without waiting for its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import pytest
from agent_processes import agent_stopped
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.connect import KernelConnectionInfo

from jupyter_tpu.kernels.connections.pool import LinkPool
from jupyter_tpu.kernels.connections.worker import WorkerKey
from jupyter_tpu.kernels.kernel_host import KernelHost
from jupyter_tpu.kernels.launch import Launch
from jupyter_tpu.kernels.messages.local_ports import default_addresses
from jupyter_tpu.kernels.messages.zmq_bridge import Secrets
from jupyter_tpu.models import Node

CHINESE = {"JPY_TPU_LANGUAGE": "zh_CN"}


@pytest.fixture
async def hosted(cloud: Any, node: Node) -> AsyncIterator[KernelHost]:
    """A kernel that is not started yet, on a worker where a spare waits."""
    pool, key = LinkPool(), WorkerKey(node=node.name, endpoint=cloud.settings.endpoint)
    shared = await pool.acquire(key, ignore)
    async with asyncio.timeout(60):
        while shared.link.spare is None:  # noqa: ASYNC110 - a property that is looked at when needed
            await asyncio.sleep(0.01)
    hosted = KernelHost(key, pool, default_addresses(), Secrets(key=b"key"))
    yield hosted
    await hosted.give_up()
    await pool.release(key, shared)
    pool.close()


def ignore(progress: Mapping[str, Any]) -> None:
    pass


async def test_a_kernel_on_a_spare_is_what_was_foretold_of_it(cloud: Any, node: Node, hosted: KernelHost) -> None:
    told: list[str] = []
    with agent_stopped(cloud.home_of(node)):  # it answers only after the start has returned
        launch = Launch(kernel_id="on-a-spare", key="key", env=CHINESE)
        await hosted.start(launch, lambda progress: told.append(progress["phase"]))
    assert "ready" not in told
    client = AsyncKernelClient()
    client.load_connection_info(cast(KernelConnectionInfo, hosted.connection_info()))
    client.start_channels(hb=False)
    try:
        await client.wait_for_ready(timeout=60)
        reply = await client.execute_interactive("1 + 1", timeout=60)
        assert (reply["content"]["status"], reply["content"]["execution_count"]) == ("ok", 1)
        info = await client.kernel_info(reply=True, timeout=60)
        same = ("implementation", "implementation_version", "protocol_version", "language_info")  # the banner has a tip
        assert hosted.kernel.expected_info
        assert {name: info["content"][name] for name in same} == {
            name: hosted.kernel.expected_info[name] for name in same
        }
        assert "ready" in told
        # a spare was started before anyone knew its user
        error = await client.execute_interactive("%tpu nonsense", timeout=60)
        assert "%tpu 没有命令 'nonsense'。" in "".join(error["content"]["traceback"])
    finally:
        client.stop_channels()
