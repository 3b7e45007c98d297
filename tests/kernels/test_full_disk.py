"""A worker whose disk is full: the notebook goes on and says so."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

from jupyter_tpu.emulator.workers.process_tree import processes_of
from jupyter_tpu.errors import EnvironmentFailed


@contextmanager
def full_disk(cloud: Any, node: Any, worker: int = 0, programs: Sequence[str] = ("agent",)) -> Iterator[None]:
    """Whatever these programs of the worker write fails, as on a full disk."""
    token = cloud.control.workers(str(node.name))[worker]["token"]
    pids = [process.pid for process in processes_of([token]) if {*programs} & {*process.cmdline()}]
    assert len(pids) >= len(programs)
    try:
        for pid in pids:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


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
        with full_disk(cloud, node):
            client.execute("print('first')")
            words_until(client, "first", "disk can't be written")
            assert client.execute("print('second')", reply=True, timeout=60)["content"]["status"] == "ok"
            assert "disk" not in words_until(client, "second")
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


@pytest.mark.nightly
def test_a_restart_on_a_full_disk_fails_with_the_reason_and_the_kernel_goes_on(
    cloud: Any, node: Any, kernel_name: str
) -> None:
    manager, client = start_new_kernel(kernel_name=kernel_name)
    try:
        client.execute("x = 41", reply=True, timeout=60)
        with full_disk(cloud, node), pytest.raises(EnvironmentFailed, match="disk of the worker can't be written"):
            manager.restart_kernel()
        assert manager.is_alive()
        assert client.execute("assert x == 41", reply=True, timeout=60)["content"]["status"] == "ok"
        manager.restart_kernel()
        client.wait_for_ready(timeout=60)
        assert client.execute("x", reply=True, timeout=60)["content"]["ename"] == "NameError"
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
