"""What other programs than Jupyter Server ask of the provisioner."""

from __future__ import annotations

import asyncio
import json
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import pytest
from jupyter_client.ioloop import AsyncIOLoopKernelManager
from jupyter_client.manager import AsyncKernelManager, KernelManager
from jupyter_client.provisioning import KernelProvisionerFactory
from jupyter_events import EventLogger
from tiers import mostly_nightly
from traitlets import Instance
from traitlets.config import Config

from jupyter_tpu.errors import BadInput
from jupyter_tpu.kernels.kernelspecs import write_kernelspec
from jupyter_tpu.kernels.progress import KERNEL_SCHEMA
from jupyter_tpu.kernels.provisioner import TPUProvisioner

RUN_AND_FORGET = """
import sys
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name=sys.argv[1])
print(client.execute("1 + 1", reply=True, timeout=60)["content"]["status"])
"""

WHAT_A_START_IMPORTS = """
import logging, sys
logging.getLogger("jupyter_tpu.kernels.connections.worker").setLevel(logging.INFO)
logging.basicConfig()
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name=sys.argv[1])
client.execute("1 + 1", reply=True, timeout=60)
client.stop_channels()
manager.shutdown_kernel()
print(*sys.modules)
"""


@pytest.fixture
def manager(kernel_name: str) -> KernelManager:
    return KernelManager(kernel_name=kernel_name)


@pytest.fixture
def kernel(manager: KernelManager) -> Iterator[KernelManager]:
    manager.start_kernel()
    yield manager
    manager.shutdown_kernel()


def execute(manager: KernelManager, code: str) -> str:
    client = manager.client()
    client.start_channels(hb=False)
    try:
        reply = client.execute(code, reply=True, timeout=60)
        return str(reply["content"]["status"])
    finally:
        client.stop_channels()


def test_it_is_found_by_its_entry_point() -> None:
    assert "tpu" in KernelProvisionerFactory.instance().provisioners


def test_a_blocking_manager_starts_restarts_and_ends_a_kernel(manager: KernelManager) -> None:
    manager.start_kernel()
    assert execute(manager, "x = 1") == "ok"
    manager.restart_kernel()
    assert execute(manager, "x") == "error"
    manager.shutdown_kernel()
    assert not manager.is_alive()


def test_a_start_where_the_worker_is_known_imports_neither_googles_client_nor_the_journal(
    kernel: KernelManager, kernel_name: str
) -> None:
    assert kernel.is_alive()  # so its worker is known to the next process
    command = [sys.executable, "-c", WHAT_A_START_IMPORTS, kernel_name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    imported = set(done.stdout.split())
    assert "asyncssh" in imported
    is_cloud_asked = "does not respond promptly" in done.stderr  # on a busy machine SSH may take more than 3 s
    unwanted = {"grpc", "google.auth", "google.cloud.tpu_v2", "jupyter_tpu.journal.journal", "sqlite3"} & imported
    assert is_cloud_asked or not unwanted


def test_clients_come_through_unix_sockets_that_only_we_can_reach(kernel: KernelManager) -> None:
    paths = [Path(f"{kernel.ip}-{port}") for port in kernel.ports]
    assert json.loads(Path(kernel.connection_file).read_text())["transport"] == "ipc"
    assert all(path.is_socket() and len(str(path)) <= 107 for path in paths)
    assert stat.S_IMODE(paths[0].parent.stat().st_mode) == 0o700


def test_clients_come_through_tcp_where_that_is_configured(kernel_name: str) -> None:
    config = Config({"TPUProvisioner": {"transport": "tcp"}})
    manager = KernelManager(kernel_name=kernel_name, config=config)
    manager.start_kernel()
    try:
        assert (manager.transport, manager.ip) == ("tcp", "127.0.0.1")
        assert execute(manager, "1") == "ok"
    finally:
        manager.shutdown_kernel()


@pytest.mark.parametrize("transport", mostly_nightly(["ipc", "tcp"], count=1))
def test_local_sockets_are_encrypted_where_the_manager_requires_it(kernel_name: str, transport: str) -> None:
    config = Config({"TPUProvisioner": {"transport": transport}})
    manager = KernelManager(kernel_name=kernel_name, config=config, transport_encryption="required")
    manager.start_kernel()
    try:
        assert manager.curve_publickey
        assert execute(manager, "1") == "ok"
        manager.restart_kernel()
        assert execute(manager, "1") == "ok"
    finally:
        manager.shutdown_kernel()


def test_cleaning_up_before_a_start_or_twice_does_no_harm(manager: KernelManager) -> None:
    manager.cleanup_resources()
    manager.start_kernel()
    manager.shutdown_kernel(now=True)
    manager.cleanup_resources()


async def test_its_information_is_json_and_finds_the_node_again(kernel_name: str) -> None:
    manager = AsyncKernelManager(kernel_name=kernel_name)
    await manager.start_kernel()
    info = json.loads(json.dumps(await manager.provisioner.get_provisioner_info()))
    other = TPUProvisioner(kernel_id="", kernel_spec=manager.kernel_spec)
    other.endpoint = ""
    await other.load_provisioner_info(info)
    for name in ("kernel_id", "node", "endpoint", "worker_id"):
        assert getattr(other, name) == getattr(manager.provisioner, name)
    assert other.connection_info == manager.provisioner.connection_info
    await manager.shutdown_kernel()


async def test_a_kernelspec_with_a_senseless_node_is_refused(kernel_name: str) -> None:
    manager = AsyncKernelManager(kernel_name=kernel_name, config=Config({"TPUProvisioner": {"node": "x"}}))
    manager.kernel_spec.metadata["kernel_provisioner"]["config"]["node"] = "$(reboot)"
    with pytest.raises(BadInput, match="is not a node name"):
        await manager.start_kernel()


class ListeningManager(AsyncIOLoopKernelManager):
    """A manager with an event logger, as Jupyter Server's."""

    event_logger = Instance(EventLogger)


def logger_into(events: list[dict[str, Any]]) -> EventLogger:
    async def keep(logger: EventLogger, schema_id: str, data: dict[str, Any]) -> None:
        events.append(data)

    logger = EventLogger()
    logger.register_event_schema(files("jupyter_tpu.server.events").joinpath("kernel.yaml").read_text())
    logger.add_listener(schema_id=KERNEL_SCHEMA, listener=keep)
    return logger


async def test_the_phases_of_a_start_and_a_death_are_events(kernel_name: str) -> None:
    events: list[dict[str, Any]] = []
    logger = logger_into(events)
    manager = ListeningManager(kernel_name=kernel_name, event_logger=logger)
    await manager.start_kernel()
    client = manager.client()
    client.start_channels(hb=False)
    async with asyncio.timeout(60):  # a kernel that has ended before its start is over is never reported as ready
        while "ready" not in [event["phase"] for event in events]:  # noqa: ASYNC110 - the logger calls listeners in this loop
            await asyncio.sleep(0.02)
    client.execute("import os; os._exit(1)")
    async with asyncio.timeout(60):
        await manager.provisioner.wait()
    client.stop_channels()
    await manager.shutdown_kernel()
    await logger.gather_listeners()
    phases = [event["phase"] for event in events]
    assert "connecting" in phases
    assert phases[-2:] == ["ready", "died"]
    assert events[-1]["error_code"] == "kernel_failed"
    assert {event["kernel_id"] for event in events} == {manager.provisioner.kernel_id}


async def test_a_kernel_that_ended_with_its_node_is_not_said_to_have_died(cloud: Any) -> None:
    events: list[dict[str, Any]] = []
    logger = logger_into(events)
    resting = await asyncio.to_thread(cloud.create_node, "resting")
    manager = ListeningManager(kernel_name=write_kernelspec(resting, cloud.settings), event_logger=logger)
    await manager.start_kernel()
    client = manager.client()
    client.start_channels(hb=False)
    await client.wait_for_ready(timeout=60)
    await asyncio.to_thread(cloud.stop_node, resting.name)
    async with asyncio.timeout(60):
        await manager.provisioner.wait()
    client.stop_channels()
    await manager.shutdown_kernel()
    await logger.gather_listeners()
    (told,) = [event for event in events if event["error_code"]]
    assert (told["phase"], told["error_code"]) == ("node_ended", "node_ended")
    # no journal here knows of a request: the cloud's own client has stopped it
    assert re.fullmatch(r"resting was stopped at \d\d:\d\d, but not by this Jupyter server\.", told["message"])


@pytest.mark.parametrize(
    ("node_id", "method", "params", "message", "limit"),
    [
        (
            "guarded",
            "set_brakes",
            {"rules": {"idle_after_s": None, "session_s": 1, "action": "stop"}, "revision": 1},
            r"guarded was stopped at \d\d:\d\d: maximum session length of 1 s reached\.",
            {"seconds": 1},
        ),
        pytest.param(
            "dismissed",
            "end_node",
            {"action": "stop"},
            r"You stopped dismissed at \d\d:\d\d\.",
            {},
            marks=pytest.mark.nightly,
        ),
    ],
)
async def test_a_node_that_ends_itself_says_why(
    cloud: Any, node_id: str, method: str, params: dict[str, Any], message: str, limit: dict[str, Any]
) -> None:
    node = await asyncio.to_thread(cloud.create_node, node_id)
    manager = AsyncIOLoopKernelManager(kernel_name=write_kernelspec(node, cloud.settings))
    await manager.start_kernel()
    provisioner = cast(TPUProvisioner, manager.provisioner)
    await provisioner.call(method, **params)
    async with asyncio.timeout(90):
        await provisioner.wait()
    assert provisioner.node_end is not None
    assert re.fullmatch(message, provisioner.node_end.message)
    assert provisioner.node_end.to_json()["arguments"] == limit  # for a front end in another language
    await manager.shutdown_kernel()


def test_a_program_that_forgets_its_kernel_still_ends(kernel_name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN_AND_FORGET, kernel_name], capture_output=True, text=True, timeout=240
    )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
