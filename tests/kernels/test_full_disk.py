"""A worker whose disk is full: the notebook goes on and says so."""

from __future__ import annotations

import resource
from typing import Any

from jupyter_client.manager import start_new_kernel

from jupyter_tpu.emulator.process_tree import processes_of


def agent_on(cloud: Any, node: Any) -> int:
    token = cloud.control.workers(str(node.name))[0]["token"]
    return next(process.pid for process in processes_of([token]) if "agent" in process.cmdline())


def words_until(client: Any, *wanted: str) -> str:
    """What is printed, in no matter which cell, until all that is wanted was."""
    said = ""
    while not all(part in said for part in wanted):
        message = client.get_iopub_msg(timeout=60)
        if message["msg_type"] == "stream":
            said += message["content"]["text"]
    return said


def test_a_notebook_on_a_full_disk_goes_on_and_says_so(cloud: Any, node: Any, kernel_name: str) -> None:
    manager, client = start_new_kernel(kernel_name=kernel_name)
    try:
        agent = agent_on(cloud, node)
        _, hard = resource.prlimit(agent, resource.RLIMIT_FSIZE)
        # fails like a full disk
        resource.prlimit(agent, resource.RLIMIT_FSIZE, (1, hard))
        client.execute("print('first')")
        words_until(client, "first", "disk takes nothing more")
        assert client.execute("print('second')", reply=True, timeout=60)["content"]["status"] == "ok"
        assert "disk" not in words_until(client, "second")
        resource.prlimit(agent, resource.RLIMIT_FSIZE, (hard, hard))
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
