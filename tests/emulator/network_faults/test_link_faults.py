"""Faults of the link between a user and a worker: asked for by name, felt by a real SSH client."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import asyncssh
import pytest
from tiers import SSHD_KINDS
from warm_python import run_warm

from jupyter_tpu.emulator.control.client import ControlRefused


@pytest.fixture(params=SSHD_KINDS)
def cloud(request: Any, make_emulator: Callable[..., Any], connect_cloud: Callable[[Any], Any]) -> Any:
    return connect_cloud(make_emulator("--link-faults", "--sshd", request.param))


@pytest.fixture
async def connection(cloud: Any, user_key: Any, login: Any) -> asyncssh.SSHClientConnection:
    await cloud.create(metadata=user_key.metadata)
    (items,) = await cloud.guest_items()
    return await login(items)


def fault(cloud: Any, *argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jupyter_tpu.cli", "emulator", "fault", *argv]
    return run_warm(command, env={**os.environ, "JUPYTER_TPU_EMULATOR": cloud.emulator.rest}, timeout=240)


async def test_an_idle_proxy_changes_nothing_for_a_login(cloud: Any, connection: Any) -> None:
    data = os.urandom(4 * 1024 * 1024)

    assert (await connection.run("cat", input=data, encoding=None, check=True)).stdout == data
    (link,) = cloud.control.links("n1")
    assert (link["worker_id"], link["connections"], link["faults"]) == (0, 1, [])


@pytest.mark.parametrize("verb", ["reset", "finish", "corrupt"])
async def test_a_broken_link_ends_the_connection_and_a_new_one_works(
    cloud: Any, connection: Any, login: Any, verb: str
) -> None:
    cloud.control.fault_link("n1", verb, **({"at": 100} if verb == "corrupt" else {}))
    with pytest.raises((asyncssh.Error, OSError)):
        await asyncio.wait_for(connection.run("sleep 1000", check=True), 120)

    (items,) = await cloud.guest_items()
    assert (await (await login(items)).run("echo here", check=True)).stdout == "here\n"


async def test_a_stalled_link_goes_on_where_it_stood(cloud: Any, connection: Any) -> None:
    cloud.control.fault_link("n1", "stall")
    running = asyncio.ensure_future(connection.run("echo here", check=True))
    done, _ = await asyncio.wait({running}, timeout=0.3)
    assert not done

    cloud.control.fault_link("n1", "clear")
    assert (await asyncio.wait_for(running, 120)).stdout == "here\n"


async def test_a_fault_may_hit_one_worker_of_several(cloud: Any, user_key: Any) -> None:
    await cloud.create("n16", accelerator_type="v5litepod-16", metadata=user_key.metadata)
    cloud.control.fault_link("n16", "refuse", worker_id=1)

    links = cloud.control.links("n16")
    assert [(link["worker_id"], [each["verb"] for each in link["faults"]]) for link in links][:2] == [
        (0, []),
        (1, ["refuse"]),
    ]


async def test_a_link_is_broken_and_repaired_by_hand(cloud: Any, user_key: Any, login: Any) -> None:
    await cloud.create(metadata=user_key.metadata)
    (items,) = await cloud.guest_items()

    broken = await asyncio.to_thread(fault, cloud, "link", "n1", "refuse")
    assert broken.stdout == f"{cloud.emulator.node_name('n1')} worker 0: 0 connections, refuse\n"
    with pytest.raises(ConnectionRefusedError):
        await login(items)
    shown = await asyncio.to_thread(fault, cloud, "link", "n1", "--json")
    assert json.loads(shown.stdout)["links"][0]["faults"] == [{"verb": "refuse", "for_s": 0}]

    await asyncio.to_thread(fault, cloud, "link", "n1", "clear")
    assert (await (await login(items)).run("echo here", check=True)).stdout == "here\n"


async def test_what_cannot_be_broken_is_said_in_one_line(cloud: Any) -> None:
    for argv, complaint in (
        (("link", "nothing", "reset"), "nothing"),
        (("link", "nothing", "explode"), "unknown verb"),
        (("link", "nothing", "reset", "--emulator", "http://127.0.0.1:1"), "No emulator responds"),
        (("link", "nothing", "reset", "--emulator", "nonsense"), "No emulator responds"),
    ):
        done = await asyncio.to_thread(fault, cloud, *argv)
        assert done.returncode == 1
        assert complaint in done.stderr
        assert done.stderr.count("\n") == 1


async def test_a_worker_without_a_proxy_has_no_link_to_break(
    make_emulator: Callable[..., Any], connect_cloud: Callable[[Any], Any]
) -> None:
    cloud = connect_cloud(make_emulator())
    await cloud.create()

    assert cloud.control.links() == []
    with pytest.raises(ControlRefused, match=r"nodes/n1 has no link .* started without --link-faults"):
        cloud.control.fault_link("n1", "reset")
    with pytest.raises(ControlRefused, match="There is no node 'n2'; nodes: n1"):
        cloud.control.fault_link("n2", "reset")


async def test_a_worker_that_there_is_not_has_no_link_to_break(cloud: Any) -> None:
    await cloud.create()

    with pytest.raises(ControlRefused, match="nodes/n1 has no worker 7"):
        cloud.control.fault_link("n1", "reset", worker_id=7)
