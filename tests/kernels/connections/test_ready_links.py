"""Links that are held ahead of any kernel."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from jupyter_tpu.kernels.agents.open_links import LinkedAgents
from jupyter_tpu.kernels.connections.pool import LinkPool
from jupyter_tpu.kernels.connections.ready_links import ReadyLinks
from jupyter_tpu.kernels.connections.worker import WorkerKey
from jupyter_tpu.kernels.kernel_host import KernelHost
from jupyter_tpu.kernels.launch import Launch
from jupyter_tpu.kernels.messages.local_ports import default_addresses
from jupyter_tpu.kernels.messages.zmq_bridge import Secrets
from jupyter_tpu.models import Node


def key_of(cloud: Any, node: Node) -> WorkerKey:
    return WorkerKey(node=node.name, endpoint=cloud.settings.endpoint)


async def test_closing_waits_for_links_that_were_let_go_before(cloud: Any, node: Node) -> None:
    links = ReadyLinks()
    links.follow({key_of(cloud, node)})
    await asyncio.sleep(0)
    links.follow(())
    await links.close()
    assert "jupyter-tpu links" not in {thread.name for thread in threading.enumerate()}


async def test_a_node_that_could_not_be_reached_is_tried_again(
    cloud: Any, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    links, agents = ReadyLinks(), LinkedAgents(cloud.settings.endpoint)
    cloud.control.close_ssh(str(node.name))
    try:
        links.follow({key_of(cloud, node)})
        while "my-node could not be prepared in advance" not in caplog.text:  # noqa: ASYNC110 - the log calls nobody
            await asyncio.sleep(0.05)
        assert await agents.call(node.name, "activity", {}) is None
    finally:
        cloud.control.open_ssh(str(node.name))
    while await agents.call(node.name, "activity", {}) is None:  # noqa: ASYNC110 - agents call nobody
        await asyncio.sleep(0.05)
    await links.close()


async def test_a_kernel_whose_start_nobody_waited_for_can_be_given_up(cloud: Any, node: Node) -> None:
    pool = LinkPool()
    hosted = KernelHost(key_of(cloud, node), pool, default_addresses(), Secrets(key=b"key"))
    await hosted.start(Launch(kernel_id="unwanted", key="key"), lambda progress: None)
    await hosted.give_up()
    await hosted.give_up()
    assert cloud.kernels_on(node) == []
    pool.close()
