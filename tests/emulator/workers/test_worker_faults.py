"""The faults of the workers of a slice, as the programs that run there meet them."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from jupyter_tpu.emulator.control.client import ControlRefused
from jupyter_tpu.emulator.workers.process_tree import processes_of

SLICE = {"accelerator_type": "v5p-16", "runtime_version": "v2-alpha-tpuv5"}
# answers each line with the same line, on its worker's own address
SERVER = """\
import os, socket
server = socket.create_server((os.environ["TPU_WORKER_HOSTNAMES"].split(",")[1], 0))
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    while data := connection.recv(100):
        connection.sendall(data)
"""
CLIENT = """\
import os, socket, sys
address = os.environ["TPU_WORKER_HOSTNAMES"].split(",")[1], int(sys.argv[1])
connection = socket.create_connection(address)
for line in sys.stdin.buffer:
    connection.sendall(line)
    print(connection.recv(100).decode().strip(), flush=True)
"""

# prints for each line by how much the worker's clock is ahead
CLOCK = """\
import sys, time
from jupyter_tpu.worker_clock import wall_clock
for line in sys.stdin:
    print(wall_clock() - time.time(), flush=True)
"""


@pytest.fixture
async def workers(cloud: Any, user_key: Any, login: Any) -> list[Any]:
    """Logins on the two workers of the node n1."""
    await cloud.create(metadata=user_key.metadata, **SLICE)
    return [await login(items) for items in await cloud.guest_items()]


async def answer(process: Any) -> str:
    return str(await asyncio.wait_for(process.stdout.readline(), 120)).strip()


def states_of(cloud: Any, worker_id: int) -> Iterator[str]:
    token = cloud.control.workers("n1")[worker_id]["token"]
    return (process.status() for process in processes_of([token]))


async def started(connection: Any, program: str, *arguments: str) -> Any:
    return await connection.create_process(f"exec python3 -c {shlex.join([program, *arguments])}")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives a process the sockets of another")
async def test_a_cut_network_loses_nothing_once_it_is_whole_again(cloud: Any, workers: list[Any]) -> None:
    server = await started(workers[1], SERVER)
    client = await started(workers[0], CLIENT, await answer(server))
    client.stdin.write("before\n")
    assert await answer(client) == "before"

    cloud.control.fault_worker("n1", "cut", 0, other_worker_id=1)
    client.stdin.write("while it is cut\n")
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(client.stdout.readline(), 2)
    assert cloud.control.workers("n1")[0]["faults"] == [{"verb": "cut", "other_worker_id": 1}]

    cloud.control.fault_worker("n1", "clear", 1)
    assert await answer(client) == "while it is cut"
    assert cloud.control.workers("n1")[0]["faults"] == []


async def test_a_killed_worker_loses_its_processes_and_its_neighbour_none(cloud: Any, workers: list[Any]) -> None:
    sleepers = [await each.create_process("echo up; exec sleep 600") for each in workers]
    for each in sleepers:
        assert await answer(each) == "up"

    cloud.control.fault_worker("n1", "kill", 1)

    await asyncio.wait_for(sleepers[1].wait_closed(), 60)
    assert list(states_of(cloud, 1)) == []
    assert psutil.STATUS_ZOMBIE not in states_of(cloud, 0)
    # a real machine accepts logins again, too
    assert (await workers[1].run("echo again")).stdout == "again\n"


async def test_a_worker_whose_clock_is_wrong_knows_no_other_time_until_it_is_cleared(
    cloud: Any, workers: list[Any]
) -> None:
    clock = await started(workers[1], CLOCK)
    for ahead_s in (-3600.5, 86400.0):
        cloud.control.fault_worker("n1", "clock", 1, ahead_s=ahead_s)
        clock.stdin.write("\n")
        assert float(await answer(clock)) == pytest.approx(ahead_s, abs=0.1)
        assert cloud.control.workers("n1")[1]["faults"] == [{"verb": "clock", "ahead_s": ahead_s}]
    cloud.control.fault_worker("n1", "clear", 1)
    clock.stdin.write("\n")
    assert float(await answer(clock)) == pytest.approx(0.0, abs=0.1)


async def test_a_frozen_worker_stands_still_until_it_is_cleared(cloud: Any, workers: list[Any]) -> None:
    echo = await workers[0].create_process("echo up; exec cat")
    assert await answer(echo) == "up"

    cloud.control.fault_worker("n1", "freeze")
    async with asyncio.timeout(60):
        while set(states_of(cloud, 0)) != {psutil.STATUS_STOPPED}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    echo.stdin.write("hello\n")
    # the newest of slow and freeze counts
    cloud.control.fault_worker("n1", "slow", factor=2)
    assert [each["faults"] for each in cloud.control.state()["workers"]] == [[{"verb": "slow", "factor": 2}], []]

    assert await answer(echo) == "hello"
    assert cloud.control.workers("n1")[0]["faults"] == [{"verb": "slow", "factor": 2}]


async def test_a_worker_that_a_killed_emulator_left_frozen_runs_again(cloud: Any, workers: list[Any]) -> None:
    await workers[0].run("setsid sleep 600 </dev/null >/dev/null 2>&1 &")
    cloud.control.fault_worker("n1", "freeze")
    async with asyncio.timeout(60):
        while set(states_of(cloud, 0)) != {psutil.STATUS_STOPPED}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    cloud.emulator.kill()
    cloud.emulator.start()

    assert set(states_of(cloud, 0)) == {psutil.STATUS_SLEEPING}


async def test_a_worker_is_not_cut_off_from_itself_or_from_nobody(cloud: Any, workers: list[Any]) -> None:
    with pytest.raises(ControlRefused, match="must differ from worker_id"):
        cloud.control.fault_worker("n1", "cut", 1, other_worker_id=1)
    with pytest.raises(ControlRefused, match="worker 2"):
        cloud.control.fault_worker("n1", "cut", 1, other_worker_id=2)
